package argv

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

func program() *cli.App {
	text := func(name, usage string) *cli.StringFlag { return &cli.StringFlag{Name: name, Usage: usage} }
	name := &cli.StringFlag{Name: "name", Aliases: []string{"n"}, Usage: "`NAME` of the lab", EnvVars: []string{"ARGV_NAME"}}
	output := &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FORMAT`"}
	return &cli.App{Name: "lab", Commands: []*cli.Command{
		{Name: "promote", Usage: "carry a version", ArgsUsage: "ADDON", Flags: []cli.Flag{text("from", "`ENV` that has it"), text("to", "`ENV` that gets it"), &cli.BoolFlag{Name: "dry-run"}}},
		{Name: "scenario", Subcommands: []*cli.Command{
			{Name: "run", Usage: "play", ArgsUsage: "SCENARIO...", Flags: []cli.Flag{output, &cli.BoolFlag{Name: "pause", Usage: "wait"}, &cli.StringSliceFlag{Name: "only", Usage: "`CLUSTERS`"}}},
		}},
		{Name: "creds", ArgsUsage: "[engine|forge]", Flags: []cli.Flag{name}},
		{Name: "status"},
	}}
}

func TestFlagsFirst(t *testing.T) {
	app := program()
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
		"lab creds argocd --help":                     "lab creds --help",
		"lab promote podinfo -h x":                    "lab promote -h",
		"lab creds -- --help":                         "lab creds -- --help",
		"lab status -":                                "lab status -",
	} {
		if got := strings.Join(FlagsFirst(app, strings.Fields(in)), " "); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestComplete(t *testing.T) {
	t.Setenv("ARGV_NAME", "around")
	app := program()
	name := &cli.StringFlag{Name: "name", Aliases: []string{"n"}, EnvVars: []string{"ARGV_NAME"}}
	values := func(a Asked) []string {
		switch a.Placeholder {
		case "ENV":
			return []string{"dev", "prod"}
		case "SCENARIO":
			return []string{"drift", "outage"}
		case "NAME":
			return []string{"of " + a.Flag(name)}
		}
		return []string{a.Placeholder + " " + a.Word}
	}
	for in, want := range map[string][]string{
		"scenario ":                 {"run:play"},
		"scenario nothing ":         nil,
		"promote --from ":           {"dev", "prod"},
		"promote x":                 {"ADDON x"},
		"promote podinfo ":          nil,
		"scenario run drift ":       {"outage"},
		"scenario run --only hub,d": {"CLUSTERS hub,d"},
		"creds ":                    {"engine", "forge"},
		"creds -n ":                 {"of around"},
		"promote --from dev --":     {"--to:ENV that gets it", "--dry-run:", "--help:show help"},
		"scenario run --only hub -": {"--output:FORMAT", "--pause:wait", "--only:CLUSTERS", "--help:show help"},
	} {
		if got := Complete(app, strings.Split(in, " "), values); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := Complete(app, nil, values); len(got) != 4 {
		t.Errorf("%q", got)
	}
}
