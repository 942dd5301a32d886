package vectors

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type manifest struct {
	Folder
	Vectors []struct{ ID string }
}

func TestEverySetIsInTheRepository(t *testing.T) {
	t.Setenv(Variable, "")
	root, err := moduleRoot()
	require.NoError(t, err)
	all, err := sets(root)
	require.NoError(t, err)
	require.Greater(t, len(all), 1)
	for _, set := range all {
		folders, err := folders(set, nil)
		require.NoError(t, err)
		require.Len(t, folders, 1)
		assert.DirExists(t, folders[0].Dir())
		assert.NotEmpty(t, folders[0].File(t, "README.md"))
		assert.False(t, folders[0].Further())
	}
}

func TestFurtherVectorsAreReadAfterOurs(t *testing.T) {
	further := t.TempDir()
	group := filepath.Join(further, "zio", "tens")
	require.NoError(t, os.MkdirAll(group, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(group, "manifest.json"), []byte(`{"vectors": [{"id": "x"}]}`), 0o600))
	t.Setenv(Variable, further)

	read := Read[manifest](t, ZIO, "tens", "layout")
	require.Len(t, read, 3, "layout has no further vectors")
	for i, want := range []string{"testdata", "testdata", Variable} {
		assert.Equal(t, want, read[i].Name())
		assert.Equal(t, i == 2, read[i].Further())
		assert.NotEmpty(t, read[i].Vectors)
	}
	assert.Equal(t, group, read[2].Dir())
	assert.Equal(t, "x", read[2].Vectors[0].ID)

	seen := 0
	Each(t, "nervana", func(*testing.T, manifest) { seen++ })
	assert.Equal(t, 1, seen, "there are no further vectors of this set")
}

func TestFurtherVectorsThatAreMissingAreAnError(t *testing.T) {
	empty := t.TempDir()
	for _, path := range []string{empty, filepath.Join(empty, "missing"), "missing"} {
		t.Setenv(Variable, path)
		_, err := folders(ZIO, nil)
		assert.ErrorContains(t, err, "DLBRIDGE_VECTORS=")
		assert.ErrorContains(t, err, path)
	}
}
