package media_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"wopcert/reference-host/internal/media"
)

func TestPrefer(t *testing.T) {
	t.Parallel()
	const plain, rich = "application/json", "application/a2a+json"
	for _, c := range []struct {
		accept []string
		want   string
	}{
		{nil, plain},
		{[]string{""}, plain},
		{[]string{"*/*"}, plain},
		{[]string{"application/*"}, plain},
		{[]string{plain}, plain},
		{[]string{rich}, rich},
		{[]string{"APPLICATION/A2A+JSON"}, rich},
		{[]string{plain + ", " + rich}, plain},
		{[]string{rich + "," + plain}, plain},
		{[]string{rich + ", " + plain + ";q=0.9"}, rich},
		{[]string{rich + ";q=0.5, " + plain + ";q=0.4"}, rich},
		{[]string{rich + ";q=0.4, " + plain + ";q=0.5"}, plain},
		{[]string{rich + ";q=0.501, " + plain + ";q=0.5"}, rich},
		{[]string{rich + ";q=0"}, plain},
		{[]string{rich + ";q=0.000, */*;q=0"}, plain},
		{[]string{plain + ";q=0, */*"}, rich},
		{[]string{plain + ";q=0, application/*;q=0.1"}, rich},
		{[]string{"*/*;q=0.1, " + rich + ";q=0.2"}, rich},
		{[]string{"application/*;q=0.9, " + rich + ";q=0.1"}, plain},
		{[]string{rich + " ; Q=1.000 , " + plain + ";q=0.999"}, rich},
		{[]string{plain + ";q=0.1", rich + ";q=0.2"}, rich},
		{[]string{"text/html"}, plain},
		{[]string{"text/html, " + rich}, rich},
		{[]string{rich + ";profile=x"}, plain},
		{[]string{rich + `;note="a,` + plain + `;q=1"`, rich + ";q=0.3"}, rich},
		{[]string{`text/x;a="\",", ` + rich}, rich},
		{[]string{rich + ";q=1.5"}, plain},
		{[]string{rich + ";q=0.1234"}, plain},
		{[]string{rich + ";q=-1"}, plain},
		{[]string{rich + ";q=x, " + rich + ";q=0.1"}, rich},
		{[]string{"*/a2a+json, /, a/, ;;;,,"}, plain},
		{[]string{`"unclosed, ` + rich}, plain},
	} {
		assert.Equal(t, c.want, media.Prefer(c.accept, plain, rich), "%q", c.accept)
	}
}

func FuzzPrefer(f *testing.F) {
	f.Add("application/a2a+json;q=0.5, */*")
	f.Add(`a/b;c="\`)
	f.Fuzz(func(t *testing.T, accept string) {
		assert.Contains(t, []string{"a/b", "c/d"}, media.Prefer([]string{accept}, "a/b", "c/d"))
	})
}
