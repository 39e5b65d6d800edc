package jcs

import (
	"bytes"
	"strconv"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
)

// number reads a number and writes the form RFC 8785 section 3.2.2.3 gives its double.
func (s *scanner) number() error {
	begin, integer := s.pos, true
scan:
	for ; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; {
		case c == '.', c == 'e', c == 'E', c == '+':
			integer = false
		case c == '-', '0' <= c && c <= '9':
		default:
			break scan
		}
	}
	literal := s.data[begin:s.pos]
	if integer {
		return s.integer(begin, literal)
	}
	f, err := strconv.ParseFloat(string(literal), 64)
	if err != nil {
		return s.fail(KindNumberRange, begin, "the number %s has no IEEE 754 double", shorten(literal))
	}
	if f == 0 && !zero(literal) {
		return s.fail(KindNumberRange, begin, "the number %s is not zero and its nearest IEEE 754 double is", shorten(literal))
	}
	if !s.emit {
		return nil
	}
	form, err := jsoncanonicalizer.NumberToJSON(f)
	if err != nil {
		return s.fail(KindNumberRange, begin, "the number %s: %v", shorten(literal), err)
	}
	s.out = append(s.out, form...)
	return nil
}

// integer writes a literal without fraction and exponent. It has no leading zero, so within the bound it is its own
// canonical form, minus zero apart.
func (s *scanner) integer(begin int, literal []byte) error {
	digits := bytes.TrimPrefix(literal, []byte("-"))
	const limit = "9007199254740991"
	if len(digits) > len(limit) || len(digits) == len(limit) && string(digits) > limit {
		return s.fail(KindUnsafeInteger, begin, "the integer %s lies beyond 2^53-1", shorten(literal))
	}
	if digits[0] == '0' {
		literal = digits
	}
	s.write(literal...)
	return nil
}

// zero reports whether the digits before an exponent are all zero.
func zero(literal []byte) bool {
	for _, c := range literal {
		if c == 'e' || c == 'E' {
			return true
		}
		if '1' <= c && c <= '9' {
			return false
		}
	}
	return true
}

func shorten(literal []byte) string {
	if len(literal) > 40 {
		return string(literal[:40]) + "…"
	}
	return string(literal)
}
