package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"html/template"
	"io"
)

var (
	//go:embed assets/report.html.tmpl
	pageText string
	//go:embed assets/report.css
	pageStyle string
	//go:embed assets/report.js
	pageScript string
)

// HTML writes the report as one page that needs nothing else: no network, no second file. Its content policy names its
// own style and script by digest, so that nothing a host has said can run in it.
func (e *Evidence) HTML(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{"dict": dict}).Parse(pageText)
	if err != nil {
		return err
	}
	return t.Execute(w, struct {
		*page
		Policy string
		Style  template.CSS
		Script template.JS
	}{
		e.view(),
		"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; script-src 'sha256-" + digest(pageScript) + "'",
		template.CSS(pageStyle),
		template.JS(pageScript),
	})
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// dict gives a template more than one argument.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errors.New("dict: a name without a value")
	}
	out := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, errors.New("dict: a name that is no text")
		}
		out[name] = pairs[i+1]
	}
	return out, nil
}
