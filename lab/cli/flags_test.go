package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

var (
	declared = regexp.MustCompile(`&cli\.\w+Flag\{\s*Name: "([a-z-]+)"`)
	read     = regexp.MustCompile(`c\.\w+\("([a-z-]+)"\)`)
)

// TestFlagsAreRead fails for a flag that its command's file never reads, unless those shared by many commands are read where they are declared.
func TestFlagsAreRead(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	names := func(file string, pattern *regexp.Regexp) map[string]bool {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, m := range pattern.FindAllStringSubmatch(string(data), -1) {
			found[m[1]] = true
		}
		return found
	}
	shared := names("aim.go", read)
	count := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		own := names(file, read)
		for name := range names(file, declared) {
			count++
			if !own[name] && !shared[name] {
				t.Errorf("%s declares --%s but does not read it", file, name)
			}
		}
	}
	if count < 20 {
		t.Errorf("%d flags found", count)
	}
}

// TestAimFlags checks that every command that takes a lab's name takes its estate, too: both select the lab, also by LAB_NAME and LAB_ESTATE.
func TestAimFlags(t *testing.T) {
	for name, c := range commands("lab", (&program{}).app().Commands) {
		has := func(flag string) bool {
			return slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), flag) })
		}
		if has("name") && !has("estate") {
			t.Errorf("%s takes --name and not --estate", name)
		}
	}
}
