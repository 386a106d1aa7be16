package reconciliation

import (
	"maps"
	"strings"
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube/kubetest"
	"homelab/lab/flux"
)

// An application has the worst state of its Kustomization and its releases.
func TestApplicationState(t *testing.T) {
	attempted := func(commit string) map[string]any {
		return status(map[string]any{"lastAttemptedRevision": "main@sha1:" + commit})
	}
	for name, tc := range map[string]struct {
		app, release map[string]any // patches
		want         string         // sync, health, version, namespace and message
	}{
		"converged":                             {nil, nil, "Synced Healthy 1.2.3 podinfo: "},
		"in no namespace":                       {nil, spec(map[string]any{"targetNamespace": nil}), "Synced Healthy 1.2.3 : "},
		"in the namespace of the kustomization": {spec(map[string]any{"targetNamespace": "ns"}), spec(map[string]any{"targetNamespace": nil}), "Synced Healthy 1.2.3 ns: "},
		"without history":                       {nil, status(map[string]any{"history": nil}), "Synced Healthy bbbbbbb podinfo: "},
		"drifted":                               {nil, conditions("Ready True ok: ok", "Drifted True DriftDetected: x"), "OutOfSync Healthy 1.2.3 podinfo: "},
		"no longer drifted":                     {nil, conditions("Ready True ok: ok", "Drifted False NoDriftDetected: x"), "Synced Healthy 1.2.3 podinfo: "},
		"not reconciled":                        {conditions(), nil, "Unknown Progressing 1.2.3 podinfo: is not reconciled yet"},
		"never applied":                         {merged(conditions("Ready Unknown Progressing: x"), status(map[string]any{"lastAppliedRevision": nil})), nil, "OutOfSync Progressing 1.2.3 podinfo: x"},
		"suspended":                             {merged(spec(map[string]any{"suspend": true}), conditions("Ready False BuildFailed: x")), nil, "Synced Suspended 1.2.3 podinfo: is suspended"},
		"being removed":                         {map[string]any{"metadata": map[string]any{"deletionTimestamp": longAgo}}, nil, "OutOfSync Progressing 1.2.3 podinfo: is being removed"},
		"waits":                                 {conditions("Ready False DependencyNotReady: waits for a"), nil, "Synced Progressing 1.2.3 podinfo: waits for a"},
		"health checks cancelled":               {conditions("Ready False HealthCheckCanceled: newer"), nil, "Synced Progressing 1.2.3 podinfo: newer"},
		"source not ready":                      {conditions("Ready False SourceNotReady: no source"), nil, "Synced Progressing 1.2.3 podinfo: no source"},
		"no artifact":                           {conditions("Ready False ArtifactFailed: no artifact"), nil, "Synced Progressing 1.2.3 podinfo: no artifact"},
		"works":                                 {conditions("Ready Unknown Progressing: x", "Reconciling True Progressing: building"), nil, "Synced Progressing 1.2.3 podinfo: building"},
		"worked":                                {conditions("Ready Unknown Progressing: x", "Reconciling False Progressing: building"), nil, "Synced Progressing 1.2.3 podinfo: x"},
		"cannot be built":                       {conditions("Ready False BuildFailed: no such file"), nil, "OutOfSync Degraded 1.2.3 podinfo: no such file"},
		"unhealthy":                             {conditions("Ready False HealthCheckFailed: timeout"), nil, "Synced Degraded 1.2.3 podinfo: timeout"},
		"unhealthy at another commit":           {merged(conditions("Ready False HealthCheckFailed: timeout"), attempted(oldCommit)), nil, "OutOfSync Degraded 1.2.3 podinfo: timeout"},
		"ready at another commit":               {status(map[string]any{"lastAppliedRevision": "main@sha1:" + oldCommit}), nil, "OutOfSync Healthy 1.2.3 podinfo: is not at the fetched commit"},
		"reconciled again":                      {merged(conditions("Ready Unknown Progressing: x", "Reconciling True Progressing: Fetching"), status(map[string]any{"history": []any{map[string]any{"lastReconciledStatus": "ReconciliationSucceeded"}}})), nil, "Synced Healthy 1.2.3 podinfo: "},
		"reconciled with a new spec":            {merged(conditions("Ready Unknown Progressing: x"), map[string]any{"metadata": map[string]any{"generation": 2}}, status(map[string]any{"history": []any{map[string]any{"lastReconciledStatus": "ReconciliationSucceeded"}}})), nil, "Synced Progressing 1.2.3 podinfo: x"},
		"reconciled with a new commit":          {merged(conditions("Ready Unknown Progressing: x"), attempted(oldCommit), status(map[string]any{"history": []any{map[string]any{"lastReconciledStatus": "ReconciliationSucceeded"}}})), nil, "Synced Progressing 1.2.3 podinfo: x"},

		"release suspended":                {nil, spec(map[string]any{"suspend": true}), "Synced Suspended 1.2.3 podinfo: release podinfo is suspended"},
		"release being removed":            {nil, map[string]any{"metadata": map[string]any{"deletionTimestamp": longAgo}}, "Synced Progressing 1.2.3 podinfo: is being removed"},
		"release that cannot be removed":   {nil, merged(conditions("Ready False UninstallFailed: no kind"), map[string]any{"metadata": map[string]any{"deletionTimestamp": longAgo}}), "Synced Progressing 1.2.3 podinfo: is being removed: no kind"},
		"release not reconciled":           {nil, conditions(), "Synced Progressing 1.2.3 podinfo: release podinfo is not reconciled yet"},
		"release reconciling":              {nil, conditions("Reconciling True Progressing: installing"), "Synced Progressing 1.2.3 podinfo: installing"},
		"release fails":                    {nil, conditions("Ready False InstallFailed: no chart"), "Synced Degraded 1.2.3 podinfo: no chart"},
		"release waits":                    {nil, conditions("Ready False DependencyNotReady: waits for b"), "Synced Progressing 1.2.3 podinfo: waits for b"},
		"release works silently":           {nil, conditions("Ready Unknown Progressing", "Reconciling True Progressing: upgrading"), "Synced Progressing 1.2.3 podinfo: upgrading"},
		"release with a new spec":          {nil, map[string]any{"metadata": map[string]any{"generation": 2}}, "Synced Progressing 1.2.3 podinfo: release podinfo has a new spec"},
		"both fail":                        {conditions("Ready False HealthCheckFailed: timeout"), conditions("Ready False InstallFailed: no chart"), "Synced Degraded 1.2.3 podinfo: no chart"},
		"both fail, the release silently":  {conditions("Ready False HealthCheckFailed: timeout"), conditions("Ready False InstallFailed"), "Synced Degraded 1.2.3 podinfo: timeout"},
		"fails, and the release works":     {conditions("Ready False BuildFailed: no such file"), conditions("Ready Unknown Progressing: upgrading"), "OutOfSync Degraded 1.2.3 podinfo: no such file"},
		"suspended, and the release fails": {spec(map[string]any{"suspend": true}), conditions("Ready False InstallFailed: no chart"), "Synced Degraded 1.2.3 podinfo: no chart"},
		"waits, and the release suspended": {conditions("Ready False DependencyNotReady: waits for a"), spec(map[string]any{"suspend": true}), "Synced Progressing 1.2.3 podinfo: waits for a"},
	} {
		t.Run(name, func(t *testing.T) {
			hub := newHub(t, standing())
			if tc.app != nil {
				hub.Patch(t, Kustomizations, "cluster-prod", "podinfo", tc.app)
			}
			if tc.release != nil {
				hub.Patch(t, HelmReleases, "cluster-prod", "podinfo", tc.release)
			}
			apps, err := applicationsOf(t, hub)
			if err != nil || len(apps) != 1 {
				t.Fatalf("%+v, %v", apps, err)
			}
			a := apps[0]
			if got := strings.Join([]string{a.Sync, a.Health, a.Version, a.Namespace}, " ") + ": " + a.Message; got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// An application of an artifact is compared with the latest one, and with no commit.
func TestApplicationOfArtifact(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*testing.T, *kubetest.Cluster)
		want   string
	}{
		"latest": {nil, "Synced: "},
		"older": {func(t *testing.T, c *kubetest.Cluster) {
			c.Patch(t, Kustomizations, "cluster-prod", "web", status(map[string]any{"lastAppliedRevision": oldArtifact}))
		}, "OutOfSync: is not at the latest artifact"},
		"none yet": {func(t *testing.T, c *kubetest.Cluster) {
			c.Patch(t, externalArtifacts, "flux-system", "web", map[string]any{"status": nil})
		}, "Synced: "},
		"of another kind": {func(t *testing.T, c *kubetest.Cluster) {
			c.Patch(t, Kustomizations, "cluster-prod", "web", merged(spec(map[string]any{"sourceRef": map[string]any{"kind": "OCIRepository"}}), status(map[string]any{"lastAppliedRevision": oldArtifact})))
		}, "Synced: "},
	} {
		hub := newHub(t, generating(newCommit))
		if tc.change != nil {
			tc.change(t, hub)
		}
		apps, err := applicationsOf(t, hub)
		if err != nil || len(apps) != 1 || apps[0].Sync+": "+apps[0].Message != tc.want {
			t.Errorf("%s: %+v, %v", name, apps, err)
		}
	}
}

func TestHeals(t *testing.T) {
	of := func(suspended bool, mode helmv2.DriftDetectionMode) helmv2.HelmRelease {
		return helmv2.HelmRelease{Spec: helmv2.HelmReleaseSpec{Suspend: suspended, DriftDetection: &helmv2.DriftDetection{Mode: mode}}}
	}
	enabled, warns := helmv2.DriftDetectionEnabled, helmv2.DriftDetectionWarn
	for name, tc := range map[string]struct {
		suspended bool
		releases  []helmv2.HelmRelease
		want      bool
	}{
		"manifests":           {false, nil, true},
		"suspended manifests": {true, nil, false},
		"release":             {false, []helmv2.HelmRelease{of(false, enabled)}, true},
		"suspended release":   {false, []helmv2.HelmRelease{of(false, enabled), of(true, enabled)}, false},
		"release that warns":  {false, []helmv2.HelmRelease{of(false, enabled), of(false, warns)}, false},
		"release without":     {false, []helmv2.HelmRelease{{}}, false},
	} {
		if got := heals(kustomizev1.Kustomization{Spec: kustomizev1.KustomizationSpec{Suspend: tc.suspended}}, tc.releases); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A Kustomization belongs to the cluster of its kubeconfig, or of its releases'.
func TestAssign(t *testing.T) {
	const labels = ", labels: {kustomize.toolkit.fluxcd.io/name: flux-system, kustomize.toolkit.fluxcd.io/namespace: flux-system}}\nspec: {interval: 1m, prune: true, path: x, sourceRef: {kind: GitRepository, name: x}"
	k := func(namespace, name, more string) string {
		return "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: " + name + ", namespace: " + namespace + labels + more + "}\n---\n"
	}
	r := func(namespace, name, more string) string {
		return "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: " + name + ", namespace: " + namespace + ", labels: {kustomize.toolkit.fluxcd.io/name: " + name +
			", kustomize.toolkit.fluxcd.io/namespace: " + namespace + "}}\nspec: {interval: 1m" + more + "}\n---\n"
	}
	const live, byConfigMap = ", kubeConfig: {secretRef: {name: live}}", ", kubeConfig: {configMapRef: {name: live}}"
	objects := k("flux-system", "a", live) + k("flux-system", "b", "") + k("flux-system", "c", byConfigMap) + k("flux-system", "d", "") + r("flux-system", "d", live) + k("flux-system", "e", "") + r("flux-system", "e", byConfigMap) +
		k("cluster-prod", "f", "") + k("cluster-autoscaler", "g", "")
	scope := flux.ScopeOf("hub", []lab.Cluster{{Name: "hub"}, {Name: "prod", KubeconfigSecrets: []lab.KubeconfigSecret{{Namespace: "flux-system", Name: "live", Key: "value"}}}})
	v, err := Read(t.Context(), newHub(t, objects).Clients().Dynamic, "homelab", scope)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, a := range v.Applications() {
		got[a.Name] = a.Cluster
	}
	want := map[string]string{"prod-a": "prod", "hub-b": "hub", "hub-c": "hub", "prod-d": "prod", "hub-e": "hub", "prod-f": "prod", "hub-cluster-autoscaler-g": "hub"}
	if !maps.Equal(got, want) {
		t.Errorf("%q", got)
	}
	in := map[string]string{}
	for key, r := range v.Releases {
		in[key.Name] = v.ReleaseIn(r)
	}
	if want := map[string]string{"d": "prod", "e": ""}; !maps.Equal(in, want) {
		t.Errorf("releases in %q", in)
	}
}

// The wanted commit is that of the repository's own head.
func TestWanted(t *testing.T) {
	of := func(url string, ref *sourcev1.GitRepositoryRef) sourcev1.GitRepository {
		s := sourcev1.GitRepository{Spec: sourcev1.GitRepositorySpec{URL: url, Reference: ref}}
		s.Status.Artifact = &meta.Artifact{Revision: "main@sha1:" + oldCommit}
		return s
	}
	estate := of("https://forge/estate.git", nil)
	root := kustomizev1.Kustomization{
		ObjectMeta: metav1.ObjectMeta{Name: "root", Namespace: "flux-system"},
		Spec:       kustomizev1.KustomizationSpec{SourceRef: kustomizev1.CrossNamespaceSourceReference{Kind: "GitRepository", Name: "estate"}},
	}
	v := View{Layers: []kustomizev1.Kustomization{root}, sources: map[types.NamespacedName]sourcev1.GitRepository{{Namespace: "flux-system", Name: "estate"}: estate}}
	heads := []engine.Head{
		{Addresses: []string{"https://forge/unrelated"}, Branch: "main", Commit: "unrelated"}, {Addresses: []string{"https://x", "https://forge/other"}, Branch: "main", Commit: "head"},
	}
	const other = "https://forge/other.git"
	for name, tc := range map[string]struct {
		s        sourcev1.GitRepository
		revision string
		want     string
	}{
		"estate":              {estate, newCommit, newCommit},
		"copy of the estate":  {of("https://FORGE/estate/", nil), newCommit, newCommit},
		"any commit":          {estate, "", oldCommit},
		"unknown":             {of("https://forge/unknown", nil), newCommit, oldCommit},
		"other":               {of(other, nil), newCommit, "head"},
		"empty reference":     {of(other, &sourcev1.GitRepositoryRef{}), newCommit, "head"},
		"its branch":          {of(other, &sourcev1.GitRepositoryRef{Branch: "main"}), newCommit, "head"},
		"its reference":       {of(other, &sourcev1.GitRepositoryRef{Name: "refs/heads/main"}), newCommit, "head"},
		"another branch":      {of(other, &sourcev1.GitRepositoryRef{Branch: "v1"}), newCommit, oldCommit},
		"another reference":   {of(other, &sourcev1.GitRepositoryRef{Name: "refs/tags/main"}), newCommit, oldCommit},
		"a commit":            {of(other, &sourcev1.GitRepositoryRef{Branch: "main", Commit: "x"}), newCommit, oldCommit},
		"a tag":               {of(other, &sourcev1.GitRepositoryRef{Tag: "x"}), newCommit, oldCommit},
		"a range of versions": {of(other, &sourcev1.GitRepositoryRef{SemVer: "1.x"}), newCommit, oldCommit},
		"nothing fetched":     {sourcev1.GitRepository{}, newCommit, ""},
	} {
		if got := v.wanted(tc.s, engine.Want{Revision: tc.revision, Heads: heads}); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	if got := (View{}).wanted(estate, engine.Want{Revision: newCommit}); got != oldCommit {
		t.Errorf("without a root: %s", got)
	}
}

// A chart lags if it was made of another commit than its repository has or should have.
func TestChartLags(t *testing.T) {
	release := helmv2.HelmRelease{Status: helmv2.HelmReleaseStatus{HelmChart: "flux-system/chart"}}
	chart := func(kind, commit string) sourcev1.HelmChart {
		c := sourcev1.HelmChart{ObjectMeta: metav1.ObjectMeta{Name: "chart", Namespace: "flux-system"}}
		c.Spec.SourceRef, c.Status.ObservedSourceArtifactRevision = sourcev1.LocalHelmChartSourceReference{Kind: kind, Name: "repository"}, "main@sha1:"+commit
		return c
	}
	for name, tc := range map[string]struct {
		chart  sourcev1.HelmChart
		source string // its name
		head   string
		want   bool
	}{
		"same commit":        {chart("GitRepository", newCommit), "repository", newCommit, false},
		"older chart":        {chart("GitRepository", oldCommit), "repository", newCommit, true},
		"older repository":   {chart("GitRepository", newCommit), "repository", "head", true},
		"other kind":         {chart("HelmRepository", oldCommit), "repository", newCommit, false},
		"missing repository": {chart("GitRepository", oldCommit), "other", newCommit, false},
	} {
		s := sourcev1.GitRepository{Spec: sourcev1.GitRepositorySpec{URL: "https://forge/x"}}
		s.Status.Artifact = &meta.Artifact{Revision: "main@sha1:" + newCommit}
		v := View{
			charts:  map[types.NamespacedName]sourcev1.HelmChart{{Namespace: "flux-system", Name: "chart"}: tc.chart},
			sources: map[types.NamespacedName]sourcev1.GitRepository{{Namespace: "flux-system", Name: tc.source}: s},
		}
		want := engine.Want{Heads: []engine.Head{{Addresses: []string{"https://forge/x"}, Commit: tc.head}}}
		if got := v.chartLags(release, want); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
		if v.chartLags(helmv2.HelmRelease{}, want) {
			t.Errorf("%s: a release without a chart lags", name)
		}
	}
}
