package jcs

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner walks a text that encoding/json has found valid, refuses what is not I-JSON and writes canonical bytes.
//
// The chosen package's number form is used as it stands. Its transformation is not: it keeps the members of an object
// in a list it walks for every insertion, and copies every value once for each level around it, which lets a text of a
// few megabytes hold a verifier for hours. Here an object's members are written as they come and put in order once, at
// its end. The tests hold the two against each other.
type scanner struct {
	data    []byte
	pos     int
	emit    bool
	out     []byte
	members []member // of every object still open; an object owns the tail that began at its start
	arena   []byte   // member names that held escapes, resolved
	scratch []byte   // an object's members while they are put in order
}

// member is one member of an open object. Offsets are 32 bits wide so that a text made of nothing but members costs a
// small multiple of its length; MaxSize, and at most six times that for out, fit.
type member struct {
	name       int32 // where the resolved name begins, in data or in the arena
	length     int32
	source     int32 // where the name's quote stands in data
	start, end int32 // the written member in out
	escaped    bool  // the name is in the arena
}

func (s *scanner) fail(kind Kind, offset int, format string, args ...any) *Error {
	return &Error{Kind: kind, Offset: offset, Detail: fmt.Sprintf(format, args...)}
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) write(b ...byte) {
	if s.emit {
		s.out = append(s.out, b...)
	}
}

// value reads the value that begins at pos and the space behind it.
func (s *scanner) value(depth int) error {
	var err error
	switch c := s.data[s.pos]; c {
	case '{':
		err = s.object(depth + 1)
	case '[':
		err = s.array(depth + 1)
	case '"':
		_, err = s.text()
	case 't', 'f', 'n':
		n := 4
		if c == 'f' {
			n = 5
		}
		s.write(s.data[s.pos : s.pos+n]...)
		s.pos += n
	default:
		err = s.number()
	}
	if err != nil {
		return err
	}
	s.space()
	return nil
}

func (s *scanner) open(depth int) error {
	if depth > MaxDepth {
		return s.fail(KindDepth, s.pos, "nesting deeper than %d", MaxDepth)
	}
	s.pos++
	s.space()
	return nil
}

func (s *scanner) array(depth int) error {
	if err := s.open(depth); err != nil {
		return err
	}
	s.write('[')
	for s.data[s.pos] != ']' {
		if s.data[s.pos] == ',' {
			s.write(',')
			s.pos++
			s.space()
		}
		if err := s.value(depth); err != nil {
			return err
		}
	}
	s.pos++
	s.write(']')
	return nil
}

func (s *scanner) object(depth int) error {
	if err := s.open(depth); err != nil {
		return err
	}
	s.write('{')
	firstMember, firstName := len(s.members), len(s.arena)
	for s.data[s.pos] != '}' {
		if s.data[s.pos] == ',' {
			s.pos++
			s.space()
		}
		m, err := s.name()
		if err != nil {
			return err
		}
		s.space()
		s.pos++ // the colon
		s.space()
		s.write(':')
		if err := s.value(depth); err != nil {
			return err
		}
		m.end = int32(len(s.out))
		s.members = append(s.members, m)
		s.write(',')
	}
	s.pos++
	if err := s.order(s.members[firstMember:]); err != nil {
		return err
	}
	if s.emit && len(s.members) > firstMember {
		s.out[len(s.out)-1] = '}' // over the last comma
	} else {
		s.write('}')
	}
	s.members, s.arena = s.members[:firstMember], s.arena[:firstName]
	return nil
}

// name reads a member's name and notes where its resolved bytes are.
func (s *scanner) name() (member, error) {
	m := member{source: int32(s.pos), start: int32(len(s.out))}
	begin := s.pos + 1
	escaped, err := s.text()
	if err != nil {
		return m, err
	}
	end := s.pos - 1
	if !escaped {
		m.name, m.length = int32(begin), int32(end-begin)
		return m, nil
	}
	m.escaped, m.name = true, int32(len(s.arena))
	for begin < end {
		if c := s.data[begin]; c != '\\' {
			s.arena = append(s.arena, c)
			begin++
			continue
		}
		r, n, err := s.escape(begin)
		if err != nil {
			return m, err
		}
		s.arena = utf8.AppendRune(s.arena, r)
		begin += n
	}
	m.length = int32(len(s.arena)) - m.name
	return m, nil
}

func (s *scanner) resolved(m member) []byte {
	if m.escaped {
		return s.arena[m.name : m.name+m.length]
	}
	return s.data[m.name : m.name+m.length]
}

// order refuses a name that occurs twice and puts the written members in UTF-16 order.
func (s *scanner) order(members []member) error {
	sorted := true
	for i := 1; i < len(members) && sorted; i++ {
		sorted = CompareUTF16(s.resolved(members[i-1]), s.resolved(members[i])) < 0
	}
	if sorted {
		return nil
	}
	slices.SortFunc(members, func(a, b member) int {
		if c := CompareUTF16(s.resolved(a), s.resolved(b)); c != 0 {
			return c
		}
		return int(a.source) - int(b.source)
	})
	for i := 1; i < len(members); i++ {
		if name := s.resolved(members[i]); bytes.Equal(s.resolved(members[i-1]), name) {
			return s.fail(KindDuplicateMember, int(members[i].source), "the member %s occurs twice in one object", quote(name))
		}
	}
	if !s.emit {
		return nil
	}
	start := len(s.out)
	s.scratch = s.scratch[:0]
	for _, m := range members {
		start = min(start, int(m.start))
		s.scratch = append(s.scratch, s.out[m.start:m.end]...)
		s.scratch = append(s.scratch, ',')
	}
	copy(s.out[start:], s.scratch)
	return nil
}

// text reads a string and writes it; it reports whether the string held an escape.
func (s *scanner) text() (escaped bool, err error) {
	run := s.pos // what lies between run and pos is copied as it stands
	s.pos++
	for {
		switch s.data[s.pos] {
		case '"':
			s.pos++
			s.write(s.data[run:s.pos]...)
			return escaped, nil
		case '\\':
			escaped = true
			r, n, err := s.escape(s.pos)
			if err != nil {
				return escaped, err
			}
			s.write(s.data[run:s.pos]...)
			if s.emit {
				s.out = appendCharacter(s.out, r)
			}
			s.pos += n
			run = s.pos
		default:
			s.pos++
		}
	}
}

// escape resolves the escape at offset at and says how many bytes it takes.
func (s *scanner) escape(at int) (rune, int, error) {
	switch c := s.data[at+1]; c {
	case 'b':
		return '\b', 2, nil
	case 'f':
		return '\f', 2, nil
	case 'n':
		return '\n', 2, nil
	case 'r':
		return '\r', 2, nil
	case 't':
		return '\t', 2, nil
	case 'u':
	default: // a quote, a backslash or a slash
		return rune(c), 2, nil
	}
	first := s.unit(at + 2)
	if !utf16.IsSurrogate(first) {
		return first, 6, nil
	}
	// The closing quote is still ahead, so at+7 is inside the text whenever at+6 is a backslash.
	if s.data[at+6] == '\\' && s.data[at+7] == 'u' {
		if r := utf16.DecodeRune(first, s.unit(at+8)); r != utf8.RuneError {
			return r, 12, nil
		}
	}
	return 0, 0, s.fail(KindLoneSurrogate, at, "the surrogate \\u%04x is not half of a pair", first)
}

// unit reads four hex digits, which encoding/json has seen to be such.
func (s *scanner) unit(at int) rune {
	var u rune
	for _, c := range s.data[at : at+4] {
		u <<= 4
		switch {
		case c <= '9':
			u |= rune(c - '0')
		default:
			u |= rune(c|0x20-'a') + 10
		}
	}
	return u
}

// appendCharacter writes a character the way RFC 8785 section 3.2.2.2 has it.
func appendCharacter(out []byte, r rune) []byte {
	switch r {
	case '\b':
		return append(out, `\b`...)
	case '\t':
		return append(out, `\t`...)
	case '\n':
		return append(out, `\n`...)
	case '\f':
		return append(out, `\f`...)
	case '\r':
		return append(out, `\r`...)
	case '"', '\\':
		return append(out, '\\', byte(r))
	}
	if r < 0x20 {
		const digits = "0123456789abcdef"
		return append(out, '\\', 'u', '0', '0', digits[r>>4], digits[r&15])
	}
	return utf8.AppendRune(out, r)
}

// CompareUTF16 orders two UTF-8 texts by their UTF-16 code units, the order RFC 8785 section 3.2.3 gives to member
// names. It differs from byte order only where a character beyond the basic plane (a lead byte of F0 and up, whose
// units are surrogates) meets one from U+E000 to U+FFFF (a lead byte of EE or EF).
func CompareUTF16[T ~string | ~[]byte](a, b T) int {
	n := min(len(a), len(b))
	for i := range n {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x >= 0xF0 && (y == 0xEE || y == 0xEF) {
			return -1
		}
		if y >= 0xF0 && (x == 0xEE || x == 0xEF) {
			return 1
		}
		return int(x) - int(y)
	}
	return len(a) - len(b)
}

func quote(name []byte) string {
	const most = 60
	if len(name) <= most {
		return strconv.Quote(string(name))
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return strconv.Quote(string(name[:cut])) + "…"
}
