package cli

import (
	"strings"
	"testing"
)

func TestFlagsFirst(t *testing.T) {
	app := (&program{}).app()
	for in, want := range map[string]string{
		"lab promote podinfo --from dev --to staging": "lab promote --from dev --to staging podinfo",
		"lab promote podinfo --from=dev --dry-run x":  "lab promote --from=dev --dry-run podinfo x",
		"lab scenario run drift -o json --pause":      "lab scenario run -o json --pause drift",
		"lab scenario run drift -- --pause":           "lab scenario run -- drift --pause",
		"lab creds argocd -n demo":                    "lab creds -n demo argocd",
		"lab scenario":                                "lab scenario",
		"lab nothing x --from y":                      "lab nothing x --from y",
		"lab --help":                                  "lab --help",
		"lab promote podinfo --unknown x":             "lab promote --unknown podinfo x",
		"lab status -":                                "lab status -",
	} {
		if got := strings.Join(flagsFirst(app, strings.Fields(in)), " "); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
