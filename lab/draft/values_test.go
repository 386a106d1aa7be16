package draft

import (
	"os"
	"strings"
	"testing"
)

// The documentation has every spelling.
func TestSpellingsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/estates.md")
	if err != nil {
		t.Fatal(err)
	}
	for spelled, name := range spellings {
		documented := strings.ReplaceAll(spelled, "clustername", "clusterName")
		for line := range strings.Lines(string(doc)) {
			if strings.HasPrefix(line, "|") && strings.Contains(line, "`"+name+"`") && strings.Contains(line, "`"+documented+"`") {
				documented = ""
			}
		}
		if documented != "" {
			t.Errorf("docs/estates.md does not say that %s is %s", spelled, name)
		}
	}
}

func TestStages(t *testing.T) {
	for name, want := range map[string]string{
		"productivity": "", "latest-eu": "", "prod": "prod", "eu-prod-2": "prod", "production": "prod", "prod1": "prod", "pre-prod": "staging", "dev_eu": "dev", "hub": "",
	} {
		if got := stageOf(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
