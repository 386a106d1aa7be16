package verb_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"homelab/lab"
	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
	"homelab/lab/scenario/verb"
)

// refusing is a lab that refuses changes with an error.
type refusing struct {
	scenario.Clusters
	scenario.Forge
	scenario.Engine
	err error
}

func (r refusing) Client(cluster string) (scenario.Client, error) {
	c, err := r.Clusters.Client(cluster)
	c.Dynamic = refusingClient{c.Dynamic, r.err}
	return c, err
}

func (r refusing) Pause(context.Context, string) error { return r.err }

func (r refusing) Commit(context.Context, scenario.Change) (string, error) { return "", r.err }

func (r refusing) Mark(context.Context, string, scenario.Marks) error { return r.err }

type refusingClient struct {
	dynamic.Interface
	err error
}

func (c refusingClient) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	all := c.Interface.Resource(r)
	return refusingResource{all, all, c.err}
}

type refusingResource struct {
	dynamic.ResourceInterface
	all dynamic.NamespaceableResourceInterface
	err error
}

func (r refusingResource) Namespace(ns string) dynamic.ResourceInterface {
	return refusingResource{r.all.Namespace(ns), r.all, r.err}
}

func (r refusingResource) Create(context.Context, *unstructured.Unstructured, metav1.CreateOptions, ...string) (*unstructured.Unstructured, error) {
	return nil, r.err
}

func (r refusingResource) Update(context.Context, *unstructured.Unstructured, metav1.UpdateOptions, ...string) (*unstructured.Unstructured, error) {
	return nil, r.err
}

func (r refusingResource) Apply(context.Context, string, *unstructured.Unstructured, metav1.ApplyOptions, ...string) (*unstructured.Unstructured, error) {
	return nil, r.err
}

func (r refusingResource) Delete(context.Context, string, metav1.DeleteOptions, ...string) error {
	return r.err
}

// Every verb that changes something can be expected to be refused, by whom and how; then nothing has changed, and nothing is undone.
func TestRefused(t *testing.T) {
	denied := func(message string) error {
		return fmt.Errorf("configmap x: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: message}})
	}
	const replicas = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: podinfo}\n"
	var (
		hook    = denied(`admission webhook "limits.example.com" denied the request: at most 3`)
		policy  = denied(`deployments.apps "podinfo" is forbidden: ValidatingAdmissionPolicy 'three' with binding 'all' denied request: at most 3`)
		server  = denied("podinfo is forbidden: User x cannot update")
		push    = errors.New("push to the forge: command error on refs/heads/main: pre-receive hook declined")
		missing = fmt.Errorf("x: %w", apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "x"))
	)
	for name, c := range map[string]struct {
		err     error
		step    string
		verdict scenario.Verdict
		text    string
	}{
		"patch, by a webhook":       {hook, "patch: {" + podinfo + ", set: {spec.replicas: 9}, outcome: refused, refusal: {by: webhook limits.example.com, message: {matches: at most 3}}}", scenario.Passed, "refused by webhook limits.example.com: "},
		"apply, by a policy":        {policy, "apply: {cluster: prod, file: x.yaml, outcome: refused, refusal: {by: policy three}}", scenario.Passed, "refused by policy three: "},
		"delete, by the API server": {server, "delete: {" + podinfo + ", outcome: refused}", scenario.Passed, "refused by API server: podinfo is forbidden"},
		"label, by a webhook":       {hook, "label: {cluster: prod, labels: {a: b}, outcome: refused}", scenario.Passed, "refused by webhook"},
		"commit, by the forge":      {push, "commit: {message: m, set: {" + values + ": {replicaCount: 9}}, outcome: refused, refusal: {by: forge, message: {matches: hook declined}}}", scenario.Passed, "refused by forge: command error on"},
		"pause, by lab":             {&lab.Error{Exit: lab.ExitInvalid, Message: "it is not lab's"}, "pause: {cluster: prod, outcome: refused, refusal: {by: lab}}", scenario.Passed, "refused by lab: it is not lab's"},
		"by another":                {hook, "patch: {" + podinfo + ", set: {spec.replicas: 9}, outcome: refused, refusal: {by: policy three}}", scenario.Failed, "expected refused, by = policy three, last seen refused by webhook limits.example.com: "},
		"with another message":      {hook, "patch: {" + podinfo + ", set: {spec.replicas: 9}, outcome: refused, refusal: {message: {matches: at most 5}}}", scenario.Failed, "message matches at most 5"},
		"not expected":              {hook, "patch: {" + podinfo + ", set: {spec.replicas: 9}}", scenario.Broken, "at most 3"},
		"no refusal but an error":   {missing, "patch: {" + podinfo + ", set: {spec.replicas: 9}, outcome: refused}", scenario.Broken, "not found"},
		"a broken connection":       {io.ErrUnexpectedEOF, "commit: {message: m, set: {" + values + ": {replicaCount: 9}}, outcome: refused}", scenario.Broken, "unexpected EOF"},
		"not refused":               {nil, "patch: {" + podinfo + ", set: {spec.replicas: 9}, outcome: refused}", scenario.Failed, "expected refused, last seen it was done: spec.replicas: 2 -> 9"},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := scenariotest.Files(t, os.DirFS(filepath.Join("..", "..", "..")), map[string]string{
				"scenarios/test/scenario.yaml": "apiVersion: lab/v1alpha1\nkind: Scenario\nmetadata: {name: test}\nspec:\n  title: t\n  teaches: t\n  steps:\n    - title: it\n      " + c.step + "\n",
				"scenarios/test/x.yaml":        replicas,
			})
			story, err := scenario.Load(fsys, "test", verb.All())
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				l := scenariotest.New(t, fsys)
				w := l.World
				if r := (refusing{w.Clusters, w.Forge, w.Engine, c.err}); c.err != nil {
					w.Clusters, w.Forge, w.Engine = r, r, r
				}
				var back []string
				r := scenario.Player{World: w, OnStep: func(r scenario.StepResult) { back = append(back, r.Back...) }}.Play(t.Context(), story)
				text := r.Steps[0].Did + r.Steps[0].Error
				if u := r.Steps[0].Unmet; u != nil {
					text = u.Error()
				}
				if r.Verdict != c.verdict || !strings.Contains(text, c.text) {
					t.Errorf("%s %s: %q, want %s: %q", r.Verdict, r.Reason, text, c.verdict, c.text)
				}
				if c.verdict == scenario.Passed && len(r.Left) > 0 || c.verdict == scenario.Passed && len(back) > 0 && back[0] != "git main" {
					t.Errorf("undone %q, left %q", back, r.Left)
				}
			})
		})
	}
}
