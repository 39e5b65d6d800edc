package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFuzzersHaveSeeds walks the module: a fuzz test is run on its seeds by every go test, and one without a seed file
// is run on nothing.
func TestFuzzersHaveSeeds(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	target := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	var found []string
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range target.FindAllSubmatch(source, -1) {
			name := string(match[1])
			found = append(found, name)
			seeds, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "testdata", "fuzz", name, "*"))
			assert.GreaterOrEqual(t, len(seeds), 3, "%s in %s", name, path)
		}
		return err
	}))
	for _, name := range []string{"FuzzSplits", "FuzzCanonicalize", "FuzzVerify", "FuzzRunID"} {
		assert.Contains(t, found, name)
	}
}
