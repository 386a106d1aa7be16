package scenariotest

import (
	"errors"
	"io/fs"
	"testing"

	"homelab/lab/scenario"
)

// ContractFiles are the files of the forge at the start of ForgeContract.
func ContractFiles() map[string]*scenario.File {
	return map[string]*scenario.File{
		"README":     {Content: []byte("readme\n")},
		"a/b/c.yaml": {Content: []byte("c: 1\n")},
		"a/b/d.yaml": {Content: []byte("d: 1\n")},
		"a/run":      {Content: []byte("#!\n"), Executable: true},
	}
}

// ForgeContract tests an implementation of scenario.Forge that holds ContractFiles.
func ForgeContract(t *testing.T, forge scenario.Forge, branches scenario.Branches) {
	t.Helper()
	trees := func() map[string]string {
		t.Helper()
		b, err := branches.Branches(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	commit := func(branch string, files map[string]*scenario.File) string {
		t.Helper()
		hash, err := forge.Commit(t.Context(), scenario.Change{Branch: branch, Author: "other", Message: "a change", Files: files})
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	text := func(branch, name string) string {
		t.Helper()
		tree, err := forge.Tree(t.Context(), branch)
		if err != nil {
			t.Fatal(err)
		}
		data, err := fs.ReadFile(tree.FS, name)
		if errors.Is(err, fs.ErrNotExist) {
			return "(none)"
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}

	first := trees()
	if len(first) != 1 || first[scenario.Branch] == "" {
		t.Fatalf("branches at first: %v", first)
	}
	// One commit changes, adds and removes a file.
	hash := commit(scenario.Branch, map[string]*scenario.File{"a/b/c.yaml": {Content: []byte("c: 2\n")}, "new/x": {Content: []byte("x")}, "README": nil})
	tree, err := forge.Tree(t.Context(), scenario.Branch)
	if err != nil || tree.Commit != hash {
		t.Errorf("head is %s, %v, want %s", tree.Commit, err, hash)
	}
	for name, want := range map[string]string{"a/b/c.yaml": "c: 2\n", "a/b/d.yaml": "d: 1\n", "new/x": "x", "README": "(none)"} {
		if got := text(scenario.Branch, name); got != want {
			t.Errorf("%s contains %q, want %q", name, got, want)
		}
	}
	if info, err := fs.Stat(tree.FS, "a/run"); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("a/run is not executable any more: %v", err)
	}
	if trees()[scenario.Branch] == first[scenario.Branch] {
		t.Error("different trees, same hash")
	}
	// Restoring the files restores the tree hash.
	files := ContractFiles()
	commit(scenario.Branch, map[string]*scenario.File{"a/b/c.yaml": files["a/b/c.yaml"], "new/x": nil, "README": files["README"]})
	if got := trees(); got[scenario.Branch] != first[scenario.Branch] {
		t.Errorf("put back, the tree is %v, was %v", got, first)
	}
	// A new branch starts from the engines' branch.
	commit("feature/y", map[string]*scenario.File{"y": {Content: []byte("y")}})
	if text("feature/y", "README") != "readme\n" || text(scenario.Branch, "y") != "(none)" {
		t.Error("a new branch does not start from the engines' branch")
	}
	if len(trees()) != 2 {
		t.Errorf("branches: %v", trees())
	}
	for range 2 { // a missing branch is ignored
		if err := branches.RemoveBranch(t.Context(), "feature/y"); err != nil {
			t.Fatal(err)
		}
	}
	if got := trees(); len(got) != 1 {
		t.Errorf("branches at last: %v", got)
	}
	if _, err := forge.Tree(t.Context(), "feature/y"); err == nil {
		t.Error("no error for a missing branch")
	}
}
