package eventlog

// RecordCount is the number of idempotency records held.
func (m *Memory) RecordCount() int {
	n := 0
	for i := range m.records {
		m.records[i].mu.Lock()
		n += len(m.records[i].held)
		m.records[i].mu.Unlock()
	}
	return n
}
