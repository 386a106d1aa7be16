package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// withoutJSON lists the commands without -o json, as documented in docs/json.md.
var withoutJSON = []string{"lab completion", "lab bundle sbom"}

// commands returns all commands with an action by full name.
func commands(prefix string, list []*cli.Command) map[string]*cli.Command {
	all := map[string]*cli.Command{}
	for _, c := range list {
		name := prefix + " " + c.Name
		if len(c.Subcommands) == 0 || len(c.Flags) > 0 { // a group has none
			all[name] = c
		}
		for name, c := range commands(name, c.Subcommands) {
			all[name] = c
		}
	}
	return all
}

func TestJSONDocumentation(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "json.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := headings(string(data))
	all := commands("lab", (&program{}).app().Commands)
	if len(all) < 20 {
		t.Fatalf("only %d commands", len(all))
	}
	for name, c := range all {
		takesJSON := slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), "output") })
		if except := slices.Contains(withoutJSON, name); takesJSON == except {
			t.Errorf("%s: takes -o json = %v, want %v as in docs/json.md", name, takesJSON, !except)
		}
		if takesJSON && !slices.Contains(documented, name) {
			t.Errorf("docs/json.md has no heading for %s", name)
		}
	}
	for _, name := range documented {
		if all[name] == nil {
			t.Errorf("docs/json.md has a heading for unknown command %s", name)
		}
	}
	first, _, _ := strings.Cut(string(data), "\n## ")
	for _, name := range withoutJSON {
		if !strings.Contains(first, "`"+name+"`") {
			t.Errorf("docs/json.md does not list %s as an exception", name)
		}
	}
}

// headings returns the commands in headings: "## lab git log, push" documents lab git log and lab git push.
func headings(doc string) []string {
	var list []string
	for line := range strings.Lines(doc) {
		title, ok := strings.CutPrefix(strings.TrimSpace(line), "## lab ")
		if !ok {
			continue
		}
		one, more, _ := strings.Cut(title, ", ")
		words := slices.DeleteFunc(strings.Fields(one), func(w string) bool { return w == strings.ToUpper(w) }) // an argument
		list = append(list, "lab "+strings.Join(words, " "))
		for _, other := range strings.Split(more, ", ") {
			if other != "" {
				list = append(list, "lab "+strings.Join(append(slices.Clone(words[:len(words)-1]), other), " "))
			}
		}
	}
	return list
}
