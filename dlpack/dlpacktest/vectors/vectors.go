// Package vectors is for the tests of this module. It finds the test vectors that other programs wrote, and reads their
// manifests.
//
// Each set of vectors is in the testdata folder of the package that decodes its format, with a README.md that describes
// it. The environment variable DLBRIDGE_VECTORS may name a folder with further vectors in the same format. For each set
// that it extends, this folder has a subfolder with the name of the set. The tests then read both folders.
package vectors

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Variable is the environment variable that names the folder of further vectors.
const Variable = "DLBRIDGE_VECTORS"

// Set is the name of a set of vectors, and of its subfolder in the folder of further vectors.
type Set string

// ZIO is the set of package tens. Each other set has the name of a package of bridge, such as "nervana".
const ZIO Set = "zio"

// home returns the folder of a set, relative to the root of the module.
func (s Set) home() string {
	if s == ZIO {
		return "tens/testdata"
	}
	return filepath.Join("bridge", string(s), "testdata")
}

// Folder is a folder with a manifest.json and the files that the manifest names. Manifest types embed it.
type Folder struct {
	dir     string
	further bool
}

func (f *Folder) set(to Folder) { *f = to }

// Dir returns the absolute path of the folder.
func (f Folder) Dir() string { return f.dir }

// Further reports whether the folder is in the folder of DLBRIDGE_VECTORS. A test must not expect a certain number of
// vectors there.
func (f Folder) Further() bool { return f.further }

// Name returns the name of a subtest for the folder: "testdata", or "DLBRIDGE_VECTORS".
func (f Folder) Name() string {
	if f.further {
		return Variable
	}
	return "testdata"
}

// File returns the content of a file in the folder.
func (f Folder) File(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Manifest is implemented by pointers to structs that embed Folder.
type Manifest[M any] interface {
	*M
	Name() string
	set(Folder)
}

// Read returns the manifests of a set, those of the repository first. A set may have several groups, each with a
// manifest in its own subfolder; groups selects among these.
func Read[M any, P Manifest[M]](t testing.TB, set Set, groups ...string) []M {
	t.Helper()
	folders, err := folders(set, groups)
	if err != nil {
		t.Fatal(err)
	}
	manifests := make([]M, len(folders))
	for i, folder := range folders {
		text := folder.File(t, "manifest.json")
		if err := json.Unmarshal(text, &manifests[i]); err != nil {
			t.Fatalf("%s: %v", filepath.Join(folder.dir, "manifest.json"), err)
		}
		P(&manifests[i]).set(folder)
	}
	return manifests
}

// Each runs a subtest for each manifest of a set.
func Each[M any, P Manifest[M]](t *testing.T, set Set, test func(t *testing.T, m M)) {
	t.Helper()
	for _, m := range Read[M, P](t, set) {
		t.Run(P(&m).Name(), func(t *testing.T) { test(t, m) })
	}
}

func folders(set Set, groups []string) ([]Folder, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		groups = []string{""} // the manifest lies in the folder of the set
	}
	sets := []Folder{{dir: filepath.Join(root, set.home())}}
	if further := os.Getenv(Variable); further != "" {
		if !filepath.IsAbs(further) {
			further = filepath.Join(root, further)
		}
		if err := check(root, further); err != nil {
			return nil, err
		}
		sets = append(sets, Folder{dir: filepath.Join(further, string(set)), further: true})
	}
	var all []Folder
	for _, folder := range sets {
		for _, group := range groups {
			in := Folder{dir: filepath.Join(folder.dir, group), further: folder.further}
			if !in.further || isFolder(in.dir) {
				all = append(all, in)
			}
		}
	}
	return all, nil
}

// sets returns the sets of the repository.
func sets(root string) (all []Set, err error) {
	manifests, err := filepath.Glob(filepath.Join(root, Set("*").home(), "manifest.json"))
	for _, path := range manifests {
		all = append(all, Set(filepath.Base(filepath.Dir(filepath.Dir(path)))))
	}
	return append(all, ZIO), err
}

// check returns an error if the folder of further vectors has none of the sets.
func check(root, further string) error {
	all, err := sets(root)
	if err != nil || slices.ContainsFunc(all, func(set Set) bool { return isFolder(filepath.Join(further, string(set))) }) {
		return err
	}
	return fmt.Errorf("vectors: %s=%s is not a folder with vectors: it has none of the subfolders %q", Variable, further, all)
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// moduleRoot returns the folder of go.mod. Tests run in the folder of their package.
func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("vectors: there is no go.mod above %s", start)
		}
	}
}
