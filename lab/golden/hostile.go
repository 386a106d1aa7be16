package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Hostile adds YAML that makes much of little, or nests without end, to the corpus of a fuzz test, and the files that match the patterns.
func Hostile(f *testing.F, patterns ...string) {
	f.Helper()
	laughs, merges := "a: &a [x,x,x,x,x,x,x,x,x]\n", "a: &a {x: 1}\n"
	for i := range 8 {
		laughs += fmt.Sprintf("%c: &%c [%s]\n", 'b'+i, 'b'+i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", 'a'+i), 9), ","))
		merges += fmt.Sprintf("%c: &%c {<<: [*%c, *%c], y: *%c}\n", 'b'+i, 'b'+i, 'a'+i, 'a'+i, 'a'+i)
	}
	for _, text := range []string{
		laughs, merges, "a: &a [*a]\n", "a: &a {<<: *a}\n", "a: " + strings.Repeat("[", 5_000), strings.Repeat("- ", 5_000) + "a", strings.Repeat("a: 1\n", 2_000),
		strings.Repeat("---\n", 5_000), "? [a, {b: c}]\n: d\n", "? " + strings.Repeat("k", 10_000) + "\n: v\n", "a: !!binary x\nb: !!float .inf\nc: !!timestamp x\n", "\xff\xfe\x00a", "a: \"\\uD800\"\n",
		"a: |9\n  x\n", "%YAML 9.9\n---\na: *nothing\n", "kind: {a: &k Cluster}\nspec: *k\n",
	} {
		f.Add([]byte(text))
	}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("no file of %s, %v", pattern, err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
}
