package threeway

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestMerge(t *testing.T) {
	const base = "1\n2\n3\n4\n5\n6\n"
	for name, test := range map[string]struct {
		base, ours, theirs string
		want               string
		conflicts          int
	}{
		"separate":              {base, "one\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n5\nsix\n", "one\n2\n3\n4\n5\nsix\n", 0},
		"inserted and removed":  {base, "0\n1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n6\n", "0\n1\n2\n3\n4\n6\n", 0},
		"identical":             {base, "1\n2\nx\n4\n5\n6\n", "1\n2\nx\n4\n5\n6\n", "1\n2\nx\n4\n5\n6\n", 0},
		"identical and another": {base, "1\n2\nx\n4\n5\n6\n", "1\n2\nx\n4\n5\ny\n", "1\n2\nx\n4\n5\ny\n", 0},
		"no newline at the end": {"1\n2\n3", "0\n1\n2\n3", "1\n2\n3\n", "0\n1\n2\n3\n", 0},
		"same line": {
			base, "1\n2\nours\n4\n5\n6\n", "1\n2\ntheirs\n4\n5\n6\n",
			"1\n2\n<<<<<<< working tree\nours\n=======\ntheirs\n>>>>>>> forge abc1234\n4\n5\n6\n", 1,
		},
		"adjacent lines": {
			base, "1\n2\nours\n4\n5\n6\n", "1\n2\n3\ntheirs\n5\n6\n",
			"1\n2\n<<<<<<< working tree\nours\n4\n=======\n3\ntheirs\n>>>>>>> forge abc1234\n5\n6\n", 1,
		},
		"two conflicts": {
			base, "a\n2\n3\n4\n5\nb\n", "x\n2\n3\n4\n5\ny\n",
			"<<<<<<< working tree\na\n=======\nx\n>>>>>>> forge abc1234\n2\n3\n4\n5\n<<<<<<< working tree\nb\n=======\ny\n>>>>>>> forge abc1234\n", 2,
		},
		"both added": {
			"", "same\nours\nend\n", "same\ntheirs\nend\n",
			"same\n<<<<<<< working tree\nours\n=======\ntheirs\n>>>>>>> forge abc1234\nend\n", 1,
		},
		"conflict without newline": {
			"1", "2", "3", "<<<<<<< working tree\n2\n=======\n3\n>>>>>>> forge abc1234\n", 1,
		},
		"CRLF": {
			"1\r\n2\r\n", "1\r\na\r\n", "1\r\nb\r\n", "1\r\n<<<<<<< working tree\r\na\r\n=======\r\nb\r\n>>>>>>> forge abc1234\r\n", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, n := Merge(test.base, test.ours, test.theirs, "abc1234")
			if got != test.want || n != test.conflicts {
				t.Errorf("%d conflicts, want %d, in\n%s\nwant\n%s", n, test.conflicts, got, test.want)
			}
			if out, clean := gitMerge(t, test.base, test.ours, test.theirs); clean != (n == 0) || clean && out != got {
				t.Errorf("git: clean %t\n%s", clean, out)
			}
		})
	}
}

func gitMerge(t *testing.T, base, ours, theirs string) (string, bool) {
	t.Helper()
	dir := t.TempDir()
	var files []string
	for name, text := range map[string]string{"1ours": ours, "2base": base, "3theirs": theirs} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"1ours", "2base", "3theirs"} {
		files = append(files, filepath.Join(dir, name))
	}
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"merge-file", "-p"}, files...)...).Output()
	return string(out), err == nil
}

func FuzzMerge3(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nx\nc\n", "a\nb\nc\nd\n")
	f.Add("a\na\na\n", "a\na\n", "a\nb\na\na\na")
	f.Add("", "x", "\r\n\n")
	f.Fuzz(func(t *testing.T, base, x, y string) {
		for _, text := range []*string{&base, &x, &y} {
			if len(*text)%2 == 0 { // few distinct lines
				*text = strings.Join(strings.Split(*text, ""), "\n")
			}
		}
		for name, got := range map[string]func() (string, int){
			"merge(b, x, b)": func() (string, int) { return Merge(base, x, base, "f") },
			"merge(b, b, x)": func() (string, int) { return Merge(base, base, x, "f") },
			"merge(b, x, x)": func() (string, int) { return Merge(base, x, x, "f") },
		} {
			if text, n := got(); text != x || n != 0 {
				t.Fatalf("%s = %q with %d conflicts, want %q (b is %q)", name, text, n, x, base)
			}
		}
		one, n := Merge(base, x, y, "f")
		other, m := Merge(base, y, x, "f")
		if n != m || n == 0 && one != other {
			t.Fatalf("not symmetric: %q with %d conflicts, %q with %d", one, n, other, m)
		}
	})
}
