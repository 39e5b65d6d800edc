package engine

// Accepting reports whether another run would be given a place now.
func (e *Engine) Accepting() bool { return e.active.Load() < e.maxActive }
