package appset_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab/appset"
)

// Each case is an ApplicationSet that would make billions of something. It ends with a problem at a position of its file.
func TestHostile(t *testing.T) {
	cases, err := filepath.Glob("testdata/hostile/*.yaml")
	if err != nil || len(cases) < 10 {
		t.Fatalf("only %d cases, %v", len(cases), err)
	}
	repository := fstest.MapFS{}
	for i := range 300 {
		repository[fmt.Sprintf("%s/%d/config.yaml", strings.Repeat("a", 200), i)] = &fstest.MapFile{Data: []byte("a: b\n")}
		repository[fmt.Sprintf("large/%d.yaml", i)] = &fstest.MapFile{Data: []byte("a: " + strings.Repeat("x", 200_000) + "\n")}
	}
	for _, name := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			head, text, _ := strings.Cut(string(data), "\n")
			x, err := parse(t, text).Expand(world(300, repository))
			var fault *appset.Error
			if !errors.As(err, &fault) || len(fault.Problems) == 0 {
				t.Fatalf("%+v, %v", x, err)
			}
			p := fault.Problems[0]
			if p.File != "set.yaml" || p.Line == 0 || !strings.Contains(p.String(), strings.TrimPrefix(head, "# ")) || len(p.String()) > 1000 {
				t.Errorf("%v, want %s", p, head)
			}
		})
	}
}
