package gitfiles_test

import (
	"bytes"
	"io/fs"
	"strings"
	"testing"

	"homelab/lab/gitfiles"
)

// packed returns a pack with what git pack-objects reads from stdin.
func packed(t *testing.T, dir string, args []string, revisions ...string) []byte {
	t.Helper()
	cmd := gitCommand(t, dir, append([]string{"pack-objects", "--stdout", "-q"}, args...)...)
	cmd.Stdin = strings.NewReader(strings.Join(revisions, "\n") + "\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A pack has the files of its commits, without their history.
func TestOfPack(t *testing.T) {
	isolated(t)
	dir := t.TempDir()
	git(t, dir, "init", "--quiet")
	write(t, dir, "a/one", "1")
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "--quiet", "-m", "one")
	write(t, dir, "a/one", "2")
	git(t, dir, "commit", "--quiet", "-am", "two")
	head := strings.TrimSpace(git(t, dir, "rev-parse", "HEAD"))
	objects := []string{head}
	for line := range strings.Lines(git(t, dir, "rev-list", "--objects", "--no-object-names", "HEAD^{tree}")) {
		objects = append(objects, strings.TrimSpace(line))
	}
	clone, err := gitfiles.OfPack(bytes.NewReader(packed(t, dir, nil, objects...)))
	if err != nil {
		t.Fatal(err)
	}
	files, err := clone.Files(head)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := fs.ReadFile(files, "a/one"); err != nil || string(data) != "2" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := clone.Files(strings.Repeat("0", 40)); err == nil {
		t.Error("a commit that the pack does not have is read")
	}
}

// Trees that git itself would refuse to check out cannot escape.
func TestOfPackHostile(t *testing.T) {
	isolated(t)
	dir := t.TempDir()
	git(t, dir, "init", "--quiet")
	made := func(stdin string, args ...string) string {
		cmd := gitCommand(t, dir, args...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	blob := made("x", "hash-object", "-w", "--stdin")
	raw := func(hash string) string {
		var b strings.Builder
		for i := 0; i < len(hash); i += 2 {
			var n byte
			for _, c := range hash[i : i+2] {
				n = n<<4 + byte(strings.IndexRune("0123456789abcdef", c))
			}
			b.WriteByte(n)
		}
		return b.String()
	}
	up := made("", "hash-object", "-w", "-t", "tree", "--stdin", "--literally")
	tree := made("100644 ../../etc/escape\x00"+raw(blob)+"40000 ..\x00"+raw(up)+"40000 .git\x00"+raw(up)+"120000 link\x00"+raw(made("../../../etc/passwd", "hash-object", "-w", "--stdin"))+
		"160000 module\x00"+raw(strings.Repeat("1", 40)), "hash-object", "-w", "-t", "tree", "--stdin", "--literally")
	commit := made("hostile", "commit-tree", tree)
	objects := []string{commit, tree, up, blob, made("../../../etc/passwd", "hash-object", "--stdin")}
	clone, err := gitfiles.OfPack(bytes.NewReader(packed(t, dir, nil, objects...)))
	if err != nil {
		t.Fatal(err)
	}
	files, err := clone.Files(commit)
	if err != nil {
		return // refused as a whole
	}
	for _, name := range []string{"link", "../../etc/escape", "../etc/passwd", "..", "module/x"} {
		if data, err := fs.ReadFile(files, name); err == nil {
			t.Errorf("%s is read: %q", name, data)
		}
	}
	if err := fs.WalkDir(files, ".", func(string, fs.DirEntry, error) error { return nil }); err != nil {
		t.Error(err)
	}
}
