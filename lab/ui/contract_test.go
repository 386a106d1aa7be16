package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"homelab/lab"
)

func content() RegistryContent {
	return RegistryContent{
		Name: "registry:5000/team/podinfo:1", Repository: "team/podinfo", Tag: "1", Digest: "sha256:" + strings.Repeat("0a", 32), Kind: "image", Bytes: 10485760,
	}
}

// contract returns an example of every result, by golden file.
func contract() map[string]any {
	commit := "3f2c1d90a7b64e5f8c9d0e1f2a3b4c5d6e7f8091"
	const kubeconfigs = "/home/me/.local/state/lab/homelab/kubeconfigs"
	running := status()
	running.Clusters, running.Applications = running.Clusters[:2], running.Applications[:2]
	running.OnlyInForge = OnlyInForge{
		Commits: []ForgeCommit{{
			Repository: "estate", Branch: "main", Commit: commit, Author: "ann", Time: time.Date(2026, 3, 1, 14, 2, 0, 0, time.UTC), Message: "two replicas in dev",
			Files: []string{"environments/dev/addons/podinfo/values.yaml"},
		}},
		PullRequests: []ForgeRequest{{Repository: "lab/estate", Number: 1, Title: "Try it", Author: "ann"}},
		Items:        []ForgeItem{{Kind: "issue", Repository: "lab/estate", Title: "#2 It breaks", Author: "ann"}}, Repositories: []string{"ann/notes"},
	}
	return map[string]any{
		"status": running,
		"up": NewUpResult("homelab", []string{"bridge prod"}, 4321987*time.Microsecond, []lab.StepResult{
			{Name: "preflight", Seconds: .4, Result: "docker 28.3, 8 cores, 21 GiB free"},
			{Name: "bridge", Cluster: "prod", Seconds: .3, Result: "annotation aws_region: eu-west-1 -> eu-central-1"},
		}, Upgrade{}),
		"up-engine": NewUpResult("homelab", []string{"engine", "addons"}, 62*time.Second, nil, Upgrade{
			From: "3.2.11", To: "3.6.1", Objects: 41, Pods: 12, OutOfSync: []string{"dev-podinfo: OutOfSync, Healthy"}, Restarted: []string{"dev: podinfo/podinfo-6c9d restarted 1 times"},
		}),
		"up-nothing": NewUpResult("homelab", nil, 1200*ms, nil, Upgrade{}),
		"up-dry-run": NewPlanResult("homelab", []lab.Step{
			{ID: "cluster/hub", Kind: "cluster", Cluster: "hub", Action: lab.ActionNone, Reason: "v1.36.3", Needs: []string{"network"}},
			{ID: "estate", Kind: "estate", Action: lab.ActionUpdate, Reason: "clusters/prod/cluster.yaml differs", Needs: []string{"forge"}},
		}, []lab.Generated{
			{Application: lab.Application{Name: "prod-podinfo", Cluster: "prod", Addon: "podinfo"}},
			{Application: lab.Application{Name: "prod-cert-manager", Cluster: "prod", Addon: "cert-manager", LeftOut: "https://charts.jetstack.io is unavailable: charts.jetstack.io does not answer"}},
		}, OnlyInForge{}, Asks{Untrusted: outside(), Open: openValues(), Effects: []Consequence{{
			Action: "delete", Cluster: "dev", Addon: "podinfo", Application: "dev-podinfo", Object: "Deployment podinfo/podinfo", Reason: "its Application goes, with all its resources",
			File: "podinfo-6.9.2/templates/deployment.yaml", Line: 1,
		}}}),
		"render": RenderResult{
			Lab: "homelab", Engine: "argocd",
			Applications: []RenderedApplication{{
				Name: "dev-identity", Addon: "identity", Cluster: "dev", Namespace: "identity", File: "addons/identity/applicationset.yaml", Line: 17, Complete: true,
				Manifest: `{"apiVersion": "argoproj.io/v1alpha1", "kind": "Application"}`,
				Objects: []RenderedObject{{
					Cluster: "dev", File: "addons/identity/chart/templates/configmap.yaml", Line: 1, Hook: "PreSync", Wave: -1,
					Object: `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cloud", "namespace": "identity"}}`,
				}},
			}},
			Problems: []RenderProblem{{File: "addons/podinfo/applicationset.yaml", Line: 31, Message: "dev-podinfo: chart podinfo 6.9.2 is not on this machine: lab bundle build podinfo-6.9.2"}},
		},
		"charts": ChartsResult{
			Lab: "homelab",
			Charts: []Chart{
				{
					Repository: "https://charts.example.com", Name: "lamp", Wanted: "1.x", Version: "1.2.0", Digest: "sha256:" + strings.Repeat("0a", 32), Since: "2026-11-27T20:00:00Z",
					Present: true, Pulled: true, File: "addons/lamp/applicationset.yaml", Line: 20,
				},
				{Repository: "oci://registry.example.com/team", Name: "shade", Wanted: "2.0.0", File: "addons/lamp/kustomization.yaml", Line: 3},
			},
			Problems: []RenderProblem{{File: "addons/lamp/kustomization.yaml", Line: 3, Message: "shade 2.0.0 of oci://registry.example.com/team: no such version, the newest is 1.9.0"}},
		},
		"explain": ExplainResult{
			Lab: "homelab", Application: "dev-podinfo", Cluster: "dev", File: "addons/podinfo/applicationset.yaml", Line: 31,
			Why: []ExplainedReason{
				{Text: "ApplicationSet podinfo selects clusters with enable_podinfo in (true)", File: "addons/podinfo/applicationset.yaml", Line: 16},
				{Text: "dev has enable_podinfo=true", File: "clusters/dev/cluster.yaml", Line: 8},
			},
			Objects: []ExplainedObject{{
				Kind: "Deployment", Name: "podinfo", Cluster: "dev", File: "podinfo-6.9.2/templates/deployment.yaml", Line: 1,
				Fields: []ExplainedField{
					{
						Path: "spec.replicas", Value: "2", File: "podinfo-6.9.2/templates/deployment.yaml", Line: 10,
						From: []ExplainedValue{{
							Path: "replicaCount", Value: "2", File: "environments/dev/addons/podinfo/values.yaml", Line: 1,
							Overrides: []ExplainedPlace{{File: "podinfo-6.9.2/values.yaml", Line: 3, Value: "1"}},
						}},
					},
					{Path: "spec.strategy.type", Value: "RollingUpdate", File: "podinfo-6.9.2/templates/deployment.yaml", Line: 13},
				},
			}},
		},
		"diff": difference(),
		"lint": LintResult{
			Lab: "homelab", Engine: "argocd",
			Findings: []LintFinding{{
				Rule: "floating-image", Severity: "warning", File: "addons/web/manifests/web.yaml", Line: 12, Column: 0, Cluster: "dev", Application: "dev-web", Object: "Deployment web/web",
				Message: "Deployment web/web runs nginx, which is another image tomorrow", Cure: "Write a version or a digest.",
			}},
			Warnings: 1, Ignored: 2,
		},
		"diagnose": DiagnoseResult{"lab-homelab-diagnose.tar.gz"},
		"down": DownResult{
			Lab: "homelab", Removed: []string{"cluster dev", "container lab-homelab-forge", "network lab-homelab"}, Kept: []string{"ready"}, Stays: []string{"cluster edge: namespace shop stays, with configmap orders"}, Seconds: 3.2,
		},
		"rehearse": RehearseResult{Lab: "homelab", Seconds: 147.1, Upgrade: Upgrade{From: "3.2.11", To: "3.6.1", Objects: 41, Pods: 12, Retracked: []string{"dev: Service podinfo/podinfo, app.kubernetes.io/instance=dev-podinfo to argocd.argoproj.io/tracking-id=dev-podinfo:/Service:podinfo/podinfo app.kubernetes.io/instance=dev-podinfo"}}},
		"snapshot-save": SnapshotSaveResult{
			Lab: "homelab", Snapshot: Snapshot{Name: "ready", Taken: "2026-11-22T16:14:41Z", Clusters: []string{"dev", "hub"}, Bytes: 120586240}, Seconds: 4.2,
		},
		"snapshot-ls": SnapshotListResult{
			Lab: "homelab", Snapshots: []Snapshot{{Name: "ready", Taken: "2026-11-22T16:14:41Z", Clusters: []string{"dev", "hub"}, Bytes: 120586240}},
		},
		"snapshot-rm": SnapshotRemoveResult{Lab: "homelab", Removed: []string{"ready"}},
		"error":       errorResult(splitErrors(brokenEstate())),
		"error-plain": errorResult(splitErrors(
			errors.New("write /var/lib/lab/x: no space left on device"))),
		"doctor": NewDoctorResult(doctorRows()),
		"doctor-undo": DoctorUndoResult{[]DoctorUndone{
			{"fs.inotify.max_user_watches", time.Date(2026, 3, 1, 14, 2, 0, 0, time.UTC), true, "524288 is 8192 again"},
			{"docker.io", time.Date(2026, 3, 1, 14, 1, 0, 0, time.UTC), false, "removing packages is up to you: apt-get remove docker.io"},
		}},
		"bundle": BundleResult{
			Items: []BundleItem{
				{
					Kind: "image", Name: "argocd", Ref: "quay.io/argoproj/argocd:v3.2.11", Digest: "sha256:" + strings.Repeat("0a", 32), Bytes: 187654321, Origin: "source",
					AtHand: true, Version: "v3.2.11", Check: "recipe",
					Modules: []BundleModule{{"github.com/argoproj/argo-cd/v3", "v3.2.11", "h1:" + strings.Repeat("A", 43) + "="}},
					Debian:  []BundlePackage{{"git", "1:2.39.5-0+deb12u2"}},
				},
				{Kind: "chart", Name: "podinfo", Ref: "podinfo-6.9.2", Origin: "registry", Version: "6.9.2", Check: "first-use", Why: "no public repository pins it"},
			},
			File: "lab.tar.zst", SHA256: strings.Repeat("0b", 32), MadeBy: "v0.1.0", MadeAt: "2026-11-27T09:00:00Z", MadeFrom: "images built from source",
		},
		"bridge": NewBridgeResult("homelab", []lab.Registration{{
			Cluster: "prod", Server: "https://homelab-prod-control-plane:6443",
			Labels: map[string]lab.Value{
				"environment": {
					Value: "prod", Origin: "cluster.yaml",
					At: lab.Position{File: "clusters/prod/cluster.yaml", Line: 6, Column: 16},
				},
				"enable_podinfo": {
					Value: "true", Origin: "cluster.yaml",
					At: lab.Position{File: "clusters/prod/cluster.yaml", Line: 9, Column: 12},
				},
			},
			Annotations: map[string]lab.Value{
				"aws_account_id": {
					Value: "210987654321", Origin: "environment.yaml",
					At: lab.Position{File: "environments/prod/environment.yaml", Line: 6, Column: 32},
				},
				"aws_vpc_id": {Value: "vpc-0a1b2c3d4e5f60718", Origin: "made up"},
			},
		}}),
		"bridge-import": BridgeImportResult{
			Cluster: "prod", From: "state, module.bootstrap.kubernetes_secret_v1.cluster[0]", Written: true,
			Changes: List[BridgeChange]{{File: "environments/prod/environment.yaml", Line: 6, Field: "spec.cloud.accountID", Key: "aws_account_id", Before: "210987654321", After: "111122223333"}},
			Left:    List[BridgeLeft]{{Key: "db_password", Reason: "sensitive"}},
		},
		"bridge-diff": BridgeDiffResult{
			Cluster: "prod", From: "Secret",
			Differences: List[BridgeDifference]{
				{Kind: "label", Key: "tier", In: "production", Production: "gold"},
				{Kind: "annotation", Key: "aws_account_id", In: "both", Lab: "210987654321", Production: "111122223333"},
			},
		},
		"plan-consequences": ConsequenceResult{
			Lab: "homelab", Engine: "argocd", Before: List[ReadRevision]{{Folder: ".", Revision: "HEAD", Commit: commit}},
			Effects: List[Consequence]{{
				Action: "recreate", Cluster: "prod", Addon: "podinfo", Application: "prod-podinfo", Object: "Namespace podinfo", Reason: "it moves: deleted and created again, unless the other is synced first", To: "prod-web",
				Loses: "everything in the namespace", Cure: "first have Application prod-podinfo go without its resources: preserveResourcesOnDeletion in its ApplicationSet, or no finalizer",
				File: "addons/podinfo/manifests/namespace.yaml", Line: 1,
			}},
			Confident: true,
		},
		"log": LogResult{Commits: []LogCommit{
			{commit, "lab", time.Date(2026, 3, 1, 14, 2, 0, 0, time.UTC), "estate as of the working tree"},
		}},
		"push":       PushResult{Commit: commit, Changed: true},
		"pr-ls":      RequestList{[]Request{request(commit)}},
		"pr-changed": RequestResult{request(commit), true},
		"pr-view": RequestView{
			request(commit), "why",
			[]RequestStatus{{"lab/diff", "success", "2 objects change", "", "lab-bot", time.Date(2026, 3, 1, 14, 3, 0, 0, time.UTC)}},
			[]RequestComment{{"lab-bot", time.Date(2026, 3, 1, 14, 3, 0, 0, time.UTC), time.Date(2026, 3, 1, 14, 3, 0, 0, time.UTC), "### lab diff"}},
		},
		"git-create": CreatedResult{User: "repo-shop", URL: "http://127.0.0.1:3000/lab/shop.git", API: "http://127.0.0.1:3000/api/v1/repos/lab/shop", Changed: true},
		"bot":        BotResult{User: "lab-bot", URL: "http://127.0.0.1:3000/lab/estate.git", API: "http://127.0.0.1:3000/api/v1/repos/lab/estate"},
		"pull": PullResult{
			Commit: commit, Commits: []LogCommit{{commit, "ann", time.Date(2026, 3, 1, 14, 2, 0, 0, time.UTC), "two replicas in dev"}},
			Files: []PullFile{
				{Path: "clusters/dev/cluster.yaml", Did: "merged"},
				{Path: "environments/dev/addons/podinfo/values.yaml", Did: "kept", Note: "changed here, removed in the forge"},
			},
			Reason: "clusters/dev/cluster.yaml has uncommitted changes", Next: "git add clusters/dev/cluster.yaml && git commit",
		},
		"url": URLResult{"http://127.0.0.1:3000/lab/estate.git"},
		"kubeconfig": KubeconfigResult{"homelab", kubeconfigs + "/hub.yaml:" + kubeconfigs + "/dev.yaml", []KubeconfigFile{
			{"hub", kubeconfigs + "/hub.yaml", "kind-homelab-hub"}, {"dev", kubeconfigs + "/dev.yaml", "kind-homelab-dev"},
		}},
		"registry-push": RegistryPushResult{"homelab", content()},
		"registry-ls":   RegistryListResult{"homelab", []RegistryContent{content()}},
		"registry-rm":   RegistryRemoveResult{"homelab", []string{"registry:5000/team/podinfo:1"}},
		"runner-log": RunnerLogResult{"homelab", []RunnerLogEntry{
			{Time: "2026-11-28T12:00:00Z", Level: "info", Message: "checked", Request: 3, Title: "three replicas", Head: commit, Check: "diff", State: "success", Said: "differences in 1 of 8 applications: 1 change", Seconds: 1.25},
		}},
		"registry-url": RegistryURLResult{"http://127.0.0.1:5000", "registry:5000"},
		"ca":           CAResult{"homelab", "homelab.localhost", "-----BEGIN CERTIFICATE-----\n...\n-----END CERTIFICATE-----\n", strings.Repeat("0a", 32)},
		"ca-trust": CATrustResult{
			Lab: "homelab", Trusted: true, Store: "/usr/local/share/ca-certificates", File: "/usr/local/share/ca-certificates/lab-homelab.crt", Changed: true,
			Did: []string{"wrote /usr/local/share/ca-certificates/lab-homelab.crt", "ran update-ca-certificates"},
		},
		"open":          OpenResult{"homelab", "podinfo", "dev", "https://podinfo.dev.homelab.localhost:8443"},
		"creds":         CredsResult{[]Credential{{"argocd", "http://127.0.0.1:8080", "admin", "..."}}},
		"creds-service": Credential{"argocd", "http://127.0.0.1:8080", "admin", "..."},
		"scenario-ls":   ScenarioList{[]ScenarioSummary{{"drift", "a human edits prod, and Git wins", "What is changed by hand lasts as long as self-heal takes.", 12}}},
		"scenario-show": scenarioShow(),
		"scenario-run":  scenarioRun(),
		"promote": PromoteResult{
			"podinfo", "dev", "staging", "6.9.1", "6.9.2", "addons/podinfo/applicationset.yaml",
			[]string{"addons/podinfo/applicationset.yaml", "addons/podinfo/flux/versions/staging.yaml"},
			true, true, "--- a/addons/podinfo/applicationset.yaml\n+++ b/addons/podinfo/applicationset.yaml\n...\n", commit,
			[]string{"for Flux, staging had podinfo 6.9.0"},
		},
		"promote-pr": PromoteRequestResult{
			request(commit), true,
			[]PromoteResult{{
				Addon: "podinfo", From: "dev", To: "staging", Was: "6.9.1", Version: "6.9.2", File: "addons/podinfo/applicationset.yaml", Files: []string{"addons/podinfo/applicationset.yaml"},
				Changed: true, Diff: "--- a/addons/podinfo/applicationset.yaml\n+++ b/addons/podinfo/applicationset.yaml\n...\n",
			}},
			[]RequestStatus{{Check: "lab/gate/podinfo", State: "success", Description: "podinfo 6.9.2 in sync and healthy in dev"}},
		},
		"init": InitResult{"/home/me/estate", DraftInfo{
			Repositories: []DraftRepository{{"https://github.com/acme/gitops", "../gitops", "main"}}, Clusters: []string{"hub", "dev"},
			Keys: []DraftKey{
				{"annotation", "addons_repo_url", "https://github.com/acme/gitops", "found", "../gitops/bootstrap/addons.yaml:18:18"},
				{"annotation", "owner", "lab-open-owner", "open", "../gitops/addons/quota.yaml:17:38"},
			},
			Addons:  []DraftAddon{{"quota", true, "", "../gitops/addons/quota.yaml:1:1"}, {"cert-manager", false, "it comes from https://charts.jetstack.io", "../gitops/addons/cert-manager.yaml:1:1"}},
			Roots:   []string{"../gitops/bootstrap/addons.yaml:1:1"},
			Choices: []DraftChoice{{"label tier of cluster dev", "gold", []string{"gold", "silver"}, "../gitops/addons/quota.yaml:9:12"}}, Open: openValues(),
			Applications: []PlanApplication{{Name: "dev-quota", Cluster: "dev", Addon: "quota"}},
		}},
		"fill": FillResult{[]FilledValue{{"replicas", "addons/seeds/flux/seeds.yaml", 8}}, openValues()},
		"addons": AddonResult{"homelab", "argocd", []AddonEntry{{
			Name: "podinfo", On: []string{"dev"}, Off: []string{"hub"}, Images: []string{"ghcr.io/stefanprodan/podinfo:6.9.2"}, Missing: []string{"ghcr.io/stefanprodan/podinfo:6.9.2"}, Seconds: 12.5,
			MissingBytes: 12e6, Memory: 21e6, Ready: 9,
		}}},
		"scenario-import": ScenarioImport{"quota", []string{"scenarios/quota/scenario.yaml"}, []RenderProblem{{"chainsaw-test.yaml", 12, "podLogs is left out: lab reports what it last saw", ""}}},
		"addon-switch":    AddonSwitch{true, []SwitchedAddon{{"podinfo", "dev", "clusters/dev/cluster.yaml", 8}}, nil, nil},
		"generate":        GenerateResult{[]string{"clusters/prod/flux.yaml", "clusters/prod/addons/podinfo/kustomization.yaml"}, nil},
		"version": VersionResult{"v0.1.0", commit, "go1.26.8", "v0.33.0", "v3.22.0", []VersionSupply{{
			Kind: "image", Name: "gitea", Version: "1.26.4", Ref: "docker.gitea.com/gitea:1.26.4", Origin: "registry", Digest: "sha256:" + strings.Repeat("0a", 32), Check: "pin",
		}}},
	}
}

func request(commit string) Request {
	return Request{
		Repository: "lab/estate", Number: 3, Title: "three replicas", Author: "lab", State: "open", Head: "pr/three-replicas", Base: "main", Commit: commit, BaseCommit: strings.Repeat("0a", 20),
		Mergeable: true, Created: time.Date(2026, 3, 1, 14, 2, 0, 0, time.UTC), Updated: time.Date(2026, 3, 1, 14, 2, 0, 0, time.UTC),
	}
}

func openValues() []OpenValue {
	return []OpenValue{{"domain", "text", "addons/seeds/flux/seeds.yaml", 7, "../fleet/apps/web.yaml:12"}}
}

func TestContract(t *testing.T) {
	for name, v := range contract() {
		t.Run(name, func(t *testing.T) {
			out, _ := printed(false, func(u *UI) {
				if err := u.JSON(v); err != nil {
					t.Fatal(err)
				}
			})
			golden(t, filepath.Join("json", name+".json"), out)
		})
	}
}

var example = regexp.MustCompile("(?s)<!-- ([a-z-]+) -->\n```json\n(.*?)```")

// The document contains all golden files.
func TestContractDocumented(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "json.md")
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for name, v := range contract() {
		data, err := encode(v)
		if err != nil {
			t.Fatal(err)
		}
		want[name] = string(data)
	}
	if *update {
		doc = example.ReplaceAllFunc(doc, func(found []byte) []byte {
			name := string(example.FindSubmatch(found)[1])
			return []byte("<!-- " + name + " -->\n```json\n" + want[name] + "```")
		})
		if err := os.WriteFile(file, doc, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]string{}
	for _, m := range example.FindAllSubmatch(doc, -1) {
		got[string(m[1])] = string(m[2])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got, go test -update writes the examples it has):\n%s", file, diff)
	}
}

func TestEmptyResults(t *testing.T) {
	for name, v := range contract() {
		empty, err := encode(reflect.Zero(reflect.TypeOf(v)).Interface())
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(empty, []byte("null")) {
			t.Errorf("%s: null in %s", name, empty)
		}
		full, err := encode(v)
		if err != nil {
			t.Fatal(err)
		}
		var a, b map[string]any
		if err := errors.Join(json.Unmarshal(empty, &a), json.Unmarshal(full, &b)); err != nil {
			t.Fatal(err)
		}
		for key := range b {
			if _, ok := a[key]; !ok {
				t.Errorf("%s: key %s is not always present", name, key)
			}
		}
	}
}

func TestJSONOutput(t *testing.T) {
	var o, e bytes.Buffer
	u := New(Options{Out: &o, Err: &e, JSON: true})
	u.Begin(header, upSteps())
	u.Event(halfWay()[1])
	u.Summary(summary())
	u.UpToDate("homelab", 4, 11, time.Second)
	u.Println("registry answers")
	if exit := u.Error(brokenEstate()); exit != lab.ExitInvalid {
		t.Errorf("exit %d", exit)
	}
	var v any
	if err := json.Unmarshal(o.Bytes(), &v); err != nil {
		t.Errorf("stdout is not one document: %v\n%s", err, o.String())
	}
	if !strings.Contains(e.String(), "preflight") {
		t.Error("narration is missing")
	}
}
