package production_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"homelab/lab"
	"homelab/lab/bridge"
	"homelab/lab/bridge/production"
	"homelab/lab/estate"
)

const hub = `apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: hub}
spec: {role: hub, provider: kind}
`

// load returns an estate with a hub and spokes, by the text of their specs.
func load(t *testing.T, environment string, spokes map[string]string) *lab.Estate {
	t.Helper()
	files := fstest.MapFS{
		"clusters/hub/cluster.yaml":          {Data: []byte(hub)},
		"environments/prod/environment.yaml": {Data: []byte("apiVersion: lab/v1alpha1\nkind: Environment\nmetadata: {name: prod}\nspec: " + environment + "\n")},
		"addons/root.yaml": {Data: []byte(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: addons, namespace: argocd}
spec:
  project: default
  source: {repoURL: https://git.example.com/estate.git, path: addons, targetRevision: main, directory: {recurse: true, include: '*/applicationset.yaml'}}
  destination: {name: in-cluster, namespace: argocd}
`)},
		"addons/web/applicationset.yaml": {Data: []byte(`apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: web, namespace: argocd}
spec:
  goTemplate: true
  generators: [{clusters: {selector: {matchLabels: {enable_web: "true"}}}}]
  template:
    metadata: {name: '{{.name}}-web'}
    spec:
      project: default
      source: {repoURL: '{{.metadata.annotations.addons_repo_url}}', path: addons/web/manifests, targetRevision: main}
      destination: {name: '{{.name}}', namespace: web}
`)},
		"addons/web/manifests/cm.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n")},
	}
	for name, spec := range spokes {
		files["clusters/"+name+"/cluster.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: lab/v1alpha1\nkind: Cluster\nmetadata: {name: " + name + "}\nspec: " + spec + "\n")}
	}
	e, err := estate.Load(files, "", "homelab")
	if err != nil {
		t.Fatalf("%v: %+v", err, err.(*lab.Error).Problems)
	}
	return e
}

const secret = `apiVersion: v1
kind: Secret
metadata:
  name: prod
  labels:
    argocd.argoproj.io/secret-type: cluster
    app.kubernetes.io/managed-by: terraform
    cloud: aws
    environment: production
    enable_web: "false"
    enable_other: "true"
    tier: gold
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    aws_region: eu-west-2
    aws_account_id: "111122223333"
    vpc_id: vpc-0123456789abcdef0
    addons_repo_url: https://git.example.com/gitops
    web_iam_role_arn: arn:aws:iam::111122223333:role/web
`

func TestTake(t *testing.T) {
	const outputs = `{
		"location": {"value": "westeurope"}, "subscription_id": {"value": "0000aaaa-0000-0000-0000-000000000000"},
		"vnet": {"value": {"id": "x", "cidrs": ["10.0.0.0/8", "11.0.0.0/8"], "deep": {"a": [1]}}}, "password": {"sensitive": true, "value": "hunter2"}
	}`
	for name, tt := range map[string]struct {
		data, environment string
		spokes            map[string]string
		changes, left     []string
	}{
		"a Secret": {
			data: secret, environment: "{order: 1}", spokes: map[string]string{"prod": "{role: spoke, environment: prod, provider: kind, addons: {web: true}}"},
			changes: []string{
				"clusters/prod/cluster.yaml spec.cloud.region <nil> -> eu-west-2",
				"clusters/prod/cluster.yaml spec.cloud.vpcID <nil> -> vpc-0123456789abcdef0",
				"clusters/prod/cluster.yaml spec.addons.web true -> false",
				"clusters/prod/cluster.yaml spec.labels.tier <nil> -> gold",
				"clusters/prod/cluster.yaml spec.metadata.vpc_id <nil> -> vpc-0123456789abcdef0", // templates read it
				"clusters/prod/cluster.yaml spec.metadata.web_iam_role_arn <nil> -> arn:aws:iam::111122223333:role/web",
				"environments/prod/environment.yaml spec.cloud.provider <nil> -> aws",
				"environments/prod/environment.yaml spec.cloud.accountID <nil> -> 111122223333",
			},
			left: []string{"addons_repo_url: describes the lab here", "enable_other: the estate has no addon other"},
		},
		"a shared environment keeps its values": {
			data:        secret,
			environment: `{order: 1, cloud: {provider: aws, accountID: "999999999999", region: eu-west-2}}`,
			spokes: map[string]string{
				"prod":  "{role: spoke, environment: prod, provider: kind, labels: {tier: gold}, metadata: {vpc_id: old}}",
				"prod2": "{role: spoke, environment: prod, provider: kind}",
			},
			changes: []string{
				"clusters/prod/cluster.yaml spec.cloud.accountID <nil> -> 111122223333",
				"clusters/prod/cluster.yaml spec.cloud.vpcID <nil> -> vpc-0123456789abcdef0",
				"clusters/prod/cluster.yaml spec.addons.web <nil> -> false",
				"clusters/prod/cluster.yaml spec.metadata.vpc_id old -> vpc-0123456789abcdef0",
				"clusters/prod/cluster.yaml spec.metadata.web_iam_role_arn <nil> -> arn:aws:iam::111122223333:role/web",
			},
			left: []string{"addons_repo_url: describes the lab here", "enable_other: the estate has no addon other"},
		},
		"outputs, in the cloud that the estate has": {
			data: outputs, environment: "{order: 1, cloud: {provider: azure}}", spokes: map[string]string{"prod": "{role: spoke, environment: prod, provider: kind}"},
			changes: []string{
				"clusters/prod/cluster.yaml spec.cloud.region <nil> -> westeurope",
				"clusters/prod/cluster.yaml spec.metadata.cidrs <nil> -> 10.0.0.0/8,11.0.0.0/8",
				"clusters/prod/cluster.yaml spec.metadata.id <nil> -> x",
				"environments/prod/environment.yaml spec.cloud.subscriptionID <nil> -> 0000aaaa-0000-0000-0000-000000000000",
			},
			left: []string{"password: sensitive", "vnet.deep: neither a text nor a list or mapping of texts"},
		},
		"a value of another shape is not a field of the cloud": {
			data: `{"vpc_id": {"value": "main"}}`, environment: "{order: 1, cloud: {provider: aws}}", spokes: map[string]string{"prod": "{role: spoke, environment: prod, provider: kind}"},
			changes: []string{"clusters/prod/cluster.yaml spec.metadata.vpc_id <nil> -> main"},
		},
		"by the cluster's name": {
			data:        `{"clusters": {"value": {"prod": {"metadata": {"zone": "a"}, "addons": {"enable_web": true}}, "other": {}}}}`,
			environment: "{order: 1}", spokes: map[string]string{"prod": "{role: spoke, environment: prod, provider: kind}"},
			changes: []string{"clusters/prod/cluster.yaml spec.addons.web <nil> -> true", "clusters/prod/cluster.yaml spec.metadata.zone <nil> -> a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := load(t, tt.environment, tt.spokes)
			b, err := production.Find([]byte(tt.data), "prod", "")
			if err != nil {
				t.Fatal(err)
			}
			c, _ := e.Cluster("prod")
			changes, left := production.Take(e, c, b)
			var got, rest []string
			for _, x := range changes {
				got = append(got, fmt.Sprintf("%s %s %v -> %v", x.File, strings.Join(x.Path, "."), x.Before, x.After))
			}
			for _, l := range left {
				rest = append(rest, l.Key+": "+l.Reason)
			}
			if d := cmp.Diff(tt.changes, got); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
			if d := cmp.Diff(tt.left, rest); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

func TestFindErrors(t *testing.T) {
	two := `{"version": 4, "outputs": {}, "resources": [{"mode": "managed", "type": "kubernetes_secret_v1", "name": "c", "instances": [
		{"index_key": "a", "attributes": {"metadata": [{"labels": {"argocd.argoproj.io/secret-type": "cluster", "cluster_name": "a"}}]}},
		{"index_key": "b", "attributes": {"metadata": [{"labels": {"argocd.argoproj.io/secret-type": "cluster", "cluster_name": "b"}}]}}]}]}`
	for _, tt := range []struct{ data, resource, want string }{
		{two, "", `which of these registers the cluster? --resource ADDRESS names it: kubernetes_secret_v1.c["a"], kubernetes_secret_v1.c["b"]`},
		{`{"version": 4, "outputs": {}, "resources": []}`, "", "neither outputs nor a Secret that registers a cluster"},
		{`{"a": {"value": 1}}`, "x.y", "no cluster Secret x.y"},
		{"kind: Secret\nmetadata: {name: x}\n", "", "the Secret registers no cluster: it has no label argocd.argoproj.io/secret-type: cluster"},
	} {
		if _, err := production.Find([]byte(tt.data), "prod", tt.resource); err == nil || err.Error() != tt.want {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
	if b, err := production.Find([]byte(two), "b", ""); err != nil || b.From != `state, kubernetes_secret_v1.c["b"]` {
		t.Errorf("%+v, %v", b, err)
	}
	if b, err := production.Find([]byte(two), "prod", `kubernetes_secret_v1.c["a"]`); err != nil || b.Labels["cluster_name"] != "a" {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestDiff(t *testing.T) {
	e := load(t, `{order: 1, cloud: {provider: aws, region: eu-west-2}}`, map[string]string{"prod": "{role: spoke, environment: prod, provider: kind, metadata: {zone: a}}"})
	c, _ := e.Cluster("prod")
	env, _ := e.Environment("prod")
	r := bridge.Build("homelab", env, lab.Environment{}, c, bridge.InputsOf(e))
	for data, want := range map[string][]string{
		secret: {"label enable_other production", "label enable_web production", "label tier production", "annotation vpc_id production", "annotation zone lab"},
		`{"region": {"value": "eu-west-2"}, "extra": {"value": 1}, "zone": {"value": "b"}}`: {"annotation extra production", "annotation zone both"},
	} {
		b, err := production.Find([]byte(data), "prod", "")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range production.Diff(r, b) {
			kind, in := "annotation", "both"
			if d.Label {
				kind = "label"
			}
			switch {
			case !d.InLab:
				in = "production"
			case !d.InProd:
				in = "lab"
			}
			if strings.HasPrefix(d.Key, "aws_") || strings.HasPrefix(d.Key, "web_") || d.Label && d.InLab {
				continue // made up here
			}
			got = append(got, kind+" "+d.Key+" "+in)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("-want +got\n%s", d)
		}
	}
}
