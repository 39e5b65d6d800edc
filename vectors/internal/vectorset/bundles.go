package vectorset

import (
	"bytes"
	"fmt"
	"strings"

	"wopcert/bundle"
	"wopcert/bundle/bundletest"
)

// IndexFile is bundles/index.json.
type IndexFile struct {
	Description string   `json:"description"`
	Cases       []Bundle `json:"cases"`
}

// Bundle is a file, what the verifier is given beside it, and what it must say.
type Bundle struct {
	File        string  `json:"file"`
	Description string  `json:"description"`
	Options     Options `json:"options"`
	Expect      Expect  `json:"expect"`

	data []byte
}

// Options are paths below bundles/, a base64url key, and texts.
type Options struct {
	Discovery   string   `json:"discovery,omitempty"`
	CompanionOf string   `json:"companionOf,omitempty"`
	VerifierKey string   `json:"verifierKey,omitempty"`
	Canaries    []string `json:"canaries,omitempty"`
}

// Expect is the answer. Rejections are the kinds, each once, sorted.
type Expect struct {
	BundleVersion     string     `json:"bundleVersion"`
	Sound             bool       `json:"sound"`
	Rejections        []string   `json:"rejections"`
	Attribution       string     `json:"attribution"`
	AttributionCode   string     `json:"attributionCode"`
	CertifiedProfiles []string   `json:"certifiedProfiles"`
	Companion         *Companion `json:"companion,omitempty"`
}

// Companion is what a colocated companion's bundle is evidence for.
type Companion struct {
	Paired   bool     `json:"paired"`
	Evidence []string `json:"evidence"`
}

// set gathers cases and the files beside them.
type set struct {
	cases    []Bundle
	attached map[string][]byte
}

// attach adds a file that options name.
func (s *set) attach(name string, data []byte) string {
	path := "attached/" + name
	s.attached[path] = data
	return path
}

func pretty(t bundletest.Tree) []byte { return encode(map[string]any(t)) }

// sound adds a bundle that must be accepted.
func (s *set) sound(id, description string, data []byte, options Options, expect Expect) {
	expect.Sound, expect.Rejections = true, []string{}
	if expect.BundleVersion == "" {
		expect.BundleVersion = "3"
	}
	if expect.Attribution == "" {
		expect.Attribution, expect.AttributionCode = "attributable", "verified"
	}
	if expect.CertifiedProfiles == nil {
		expect.CertifiedProfiles = []string{}
	}
	s.cases = append(s.cases, Bundle{id + ".json", description, options, expect, data})
}

// defect adds a bundle with one thing wrong. Unless changed, its attestation verifies.
func (s *set) defect(kind bundle.Kind, id, description string, data []byte, change ...func(*Bundle)) {
	b := Bundle{fmt.Sprintf("%s/%s.json", kind, id), description, Options{},
		Expect{"3", false, []string{string(kind)}, "attributable", "verified", []string{}, nil}, data}
	for _, f := range change {
		f(&b)
	}
	s.cases = append(s.cases, b)
}

func attribution(a, code string) func(*Bundle) {
	return func(b *Bundle) { b.Expect.Attribution, b.Expect.AttributionCode = a, code }
}

// unread is for files rejected before the attestation is reached.
func unread(version string) func(*Bundle) {
	return func(b *Bundle) {
		b.Expect.BundleVersion = version
		b.Expect.Attribution, b.Expect.AttributionCode = "not-attested", "not-read"
	}
}

func with(options Options) func(*Bundle) { return func(b *Bundle) { b.Options = options } }

func hostKey() bundle.SigningKey { return bundletest.Key("host") }

func small() bundletest.Tree {
	return bundletest.TreeOf(bundletest.Signed(bundletest.Small(), hostKey()))
}

func full() bundletest.Tree {
	return bundletest.TreeOf(bundletest.Signed(bundletest.Full(), hostKey()))
}

// edited is a tree after f, sealed again: everything derived agrees, and the host's key signs it.
func edited(t bundletest.Tree, f func(bundletest.Tree)) []byte {
	f(t)
	t.Seal(hostKey())
	return pretty(t)
}

// tampered is a tree after f, with nothing made to agree again.
func tampered(t bundletest.Tree, f func(bundletest.Tree)) []byte {
	f(t)
	return pretty(t)
}

func bundleFiles() map[string][]byte {
	s := &set{attached: map[string][]byte{}}
	s.soundBundles()
	s.companions()
	s.textDefects()
	s.rowDefects()
	s.signatureDefects()
	s.tierDefects()
	s.claimDefects()
	s.rungDefects()

	files := s.attached
	for _, c := range s.cases {
		if _, twice := files[c.File]; twice {
			panic("two cases write " + c.File)
		}
		files[c.File] = c.data
	}
	files["index.json"] = encode(IndexFile{
		"Verify file with options. The answer must be expect: rejections lists the kinds of rejection, each once, sorted; a file with a rejection certifies nothing. Every file of a folder named for a kind has that one defect.",
		s.cases,
	})
	return files
}

// replaceText edits the text of a bundle where a tree cannot: it panics where old does not occur exactly once.
func replaceText(data []byte, old, new string) []byte {
	if bytes.Count(data, []byte(old)) != 1 {
		panic(fmt.Sprintf("%q occurs %d times", old, bytes.Count(data, []byte(old))))
	}
	return bytes.Replace(data, []byte(old), []byte(new), 1)
}

func upTo(data []byte, n int) []byte { return bytes.Clone(data[:n]) }

func repeated(text string, n int) []byte { return []byte(strings.Repeat(text, n)) }
