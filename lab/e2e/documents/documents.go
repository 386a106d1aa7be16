// Package documents finds the commands in README.md and docs/, for the tests that run them.
package documents

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Elsewhere maps documented commands to the tests that run them, as they remove the lab or need their own machine.
var Elsewhere = map[string]string{
	"lab up":                                   "TestDefaultEstate/second_up_is_idle",
	"lab up --fix":                             "TestDefaultEstate/up",
	"lab down":                                 "TestDefaultEstate/down_leaves_no_remains",
	"lab down --snapshots":                     "TestDefaultEstate/down_leaves_no_remains",
	"lab down --abandon edge":                  "lab/up: TestRemoveAttachedClusterUnreachable",
	"lab init DIR":                             "lab/cli: init.txtar",
	"lab init --from DIR|URL NEW":              "lab/cli: init-from.txtar",
	"lab fill domain=example.com port=80":      "lab/cli: fill.txtar",
	"lab fill --file values.yaml":              "lab/cli: fill.txtar",
	"lab scenario new my-drift --from drift":   "lab/cli: scenario-import.txtar",
	"lab scenario record my-morning --for 10m": "TestDefaultEstate/scenario_with_every_verb",
	"lab scenario import tests/quota/chainsaw-test.yaml --cluster dev": "lab/cli: scenario-import.txtar",
	"lab addon enable podinfo --cluster dev":                           "lab/cli: addon.txtar",
	"lab addon disable podinfo --env dev":                              "lab/cli: addon.txtar",
	"lab plan":                                                         "lab/cli: plan.txtar",
	"lab plan --rev main..feature --check":                             "lab/cli: plan.txtar",
	"lab bridge import FILE --cluster prod":                            "lab/cli: bridge.txtar",
	"lab bridge diff FILE --cluster prod":                              "lab/cli: bridge.txtar",
	"lab up --engine flux":                                             "TestDefaultEstateOnFlux/up",
	"lab up --engine flux --switch-engine":                             "TestDefaultEstateOnFlux/switch_the_engine_and_back",
	"lab up --engine argocd --switch-engine":                           "TestDefaultEstateOnFlux/switch_the_engine_and_back",
	"lab rehearse upgrade --engine-version newest":                     "TestVersions/engine_upgrade_rehearsed",
	"lab doctor --undo":                                                "lab/doctor: TestUndo",
	"lab generate":                                                     "lab/cli: generate.txtar",
	"lab git url gitops":                                               "TestForeignEstates",
	"lab git url --credentials gitops":                                 "TestForeignEstates",
	`lab git pr open --title "three replicas"`:                         "TestDefaultEstate/pull_request_merged",
	"lab git pr open --title fix --head fix":                           "TestDefaultEstate/pull_request_merged",
	"lab git pr comment 3 --bot --body-file review.md":                 "TestDefaultEstate/pull_request_merged",
	"lab git pr status 3 --bot --check lab/diff --state success":       "TestDefaultEstate/pull_request_merged",
	"lab git pr view 3":                                                "TestDefaultEstate/pull_request_merged",
	"lab git pr merge 3":                                               "TestDefaultEstate/pull_request_merged",
	"lab git pr merge 3 --commit HASH":                                 "TestDefaultEstate/pull_request_merged",
	"lab git pr close 3 --remove-branch":                               "TestDefaultEstate/pull_request_merged",
	"lab git create shop --writes --credentials":                       "TestDefaultEstate/pull_request_merged",
	"lab git bot --credentials":                                        "TestDefaultEstate/pull_request_merged",
	"lab git bot --credentials -o json":                                "TestDefaultEstate/pull_request_merged",
	"lab bundle save lab.tar.zst":                                      "TestBundle",
	"lab bundle load lab.tar.zst":                                      "TestBundle",
	"lab up --images bundle=lab.tar.zst":                               "TestBundle",
	"lab up --engine-version 3.5":                                      "lab/up: TestEngineUpgraded",
	"lab up --engine-version 3.6":                                      "TestVersions/engine_upgraded_and_back",
	"lab up --engine-version newest":                                   "TestVersions/engine_upgraded_and_back",
	"lab up --engine-version 3.6 --dry-run":                            "TestVersions/engine_upgraded_and_back",
	"lab up --engine-version 3.6 --save before":                        "TestVersions/engine_upgraded_and_back",
	"lab snapshot restore before":                                      "TestVersions/engine_upgraded_and_back",
	"lab up --recreate edge":                                           "TestFaults/unconfirmed_removals_rejected",
	"lab up --recreate NAME":                                           "TestFaults/unconfirmed_removals_rejected",
	"lab up --prune":                                                   "TestFaults/unconfirmed_removals_rejected",
	"lab up --adopt":                                                   "TestFaults/unconfirmed_removals_rejected",
	"lab up --builtin":                                                 "TestBuiltinEstate",
	"lab up --trust":                                                   "TestExistingCluster",
	"lab up --lose-data":                                               "TestDefaultEstate/as_lab_plan_said",
	"lab completion":                                                   "lab/cli: completion.txtar",
	"lab completion bash|zsh|fish":                                     "lab/cli: completion.txtar",
	"lab bundle build":                                                 "lab/supply: TestSupply",
	"lab bundle push HOST:PORT":                                        "TestRegistry",
	"lab snapshot save":                                                "TestDefaultEstate/snapshot_and_restore",
	"lab snapshot save --replace":                                      "lab/up: TestShelvedUnknown",
	"lab snapshot save ready":                                          "TestFaults/killed_with_snapshots",
	"lab snapshot restore":                                             "TestDefaultEstate/snapshot_and_restore",
	"lab snapshot restore ready":                                       "TestFaults/killed_with_snapshots",
	"lab up --from ready":                                              "TestDefaultEstate/snapshot_and_restore",

	"lab registry push ghcr.io/stefanprodan/podinfo:6.9.2 team/podinfo:1": "TestParts/image_and_chart_deployed",
	"lab registry push":               "TestParts/image_and_chart_deployed",
	"lab registry push web-0.1.0.tgz": "TestParts/image_and_chart_deployed",
	"lab registry ls":                 "TestParts/image_and_chart_deployed",
	"lab registry rm team/podinfo:1":  "TestParts/registry_in_a_snapshot",
	"lab registry url":                "TestParts/registry_added",
	"lab creds registry":              "TestParts/registry_added",

	"lab runner log":                 "TestRunner/request_checked",
	"lab runner log --follow":        "TestRunner/request_checked",
	"lab ca":                         "TestNames/names_from_this_machine",
	"lab open":                       "lab/cli: ca.txtar",
	"lab ca trust":                   "lab/cli: TestTrustStore",
	"lab ca untrust":                 "lab/cli: TestTrustStore",
	"lab open podinfo --cluster dev": "TestNames/names_from_this_machine",

	"lab diff --rev HEAD":          "lab/cli: diff.txtar",
	"lab diff --rev HEAD~1..HEAD":  "lab/review: TestDocumentation",
	"lab diff --rev main..feature": "lab/cli: diff.txtar",

	"lab up -C lab/e2e/testdata/worked-examples": "TestWorkedExamples/up",
}

// commandIn matches `lab ...` in code spans and lines of code blocks.
var commandIn = regexp.MustCompile("(?m)`(lab [a-z][^`]*)`|^(lab [a-z][^#\n]*)|\\$\\((lab [^)]*)\\)")

// Commands returns the commands in README.md and docs/*.md below root, sorted and with alternatives expanded: here are those that run on any lab, elsewhere
// those in Elsewhere, verbatim.
func Commands(root string) (here, elsewhere []string, err error) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, nil, err
	}
	for _, file := range append(files, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, err
		}
		for _, m := range commandIn.FindAllStringSubmatch(string(text), -1) {
			command, _, _ := strings.Cut(m[1]+m[2]+m[3], "  ") // drop the explanation on the right
			command = strings.TrimSpace(command)
			switch {
			case strings.HasPrefix(command, "lab homelab "): // example output
			case strings.HasPrefix(command, "lab scenario run"), strings.HasPrefix(command, "lab promote"): // covered by the scenario tests
			case Elsewhere[command] != "":
				elsewhere = append(elsewhere, command)
			default:
				here = append(here, alternatives(command)...)
			}
		}
	}
	return compact(here), compact(elsewhere), nil
}

func compact(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// alternatives expands `lab git url|push|log` and replaces placeholders in capitals.
func alternatives(command string) []string {
	command = strings.NewReplacer("CLUSTER", "prod", "SERVICE", "argocd").Replace(command)
	words := strings.Fields(command)
	for i, w := range words {
		if !strings.Contains(w, "|") {
			continue
		}
		var list []string
		for _, alternative := range strings.Split(w, "|") {
			words[i] = alternative
			list = append(list, alternatives(strings.Join(words, " "))...)
		}
		return list
	}
	return []string{strings.Join(words, " ")}
}
