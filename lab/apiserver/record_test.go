//go:build e2e

package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

var record = flag.Bool("record", false, "record the answers of a real API server")

// TestOnServer asks a real API server, of the programs in LAB_APISERVER, and compares its answers with the recorded ones.
func TestOnServer(t *testing.T) {
	programs := os.Getenv("LAB_APISERVER")
	if programs == "" {
		t.Fatal("LAB_APISERVER is not set: .ci/record-apiserver does it")
	}
	env := &envtest.Environment{BinaryAssetsDirectory: programs, ControlPlaneStartTimeout: 2 * time.Minute, CRDDirectoryPaths: []string{"testdata/definitions.yaml"}, ErrorIfCRDPathMissing: true}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	}()
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(found)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	of := func(object map[string]any) dynamic.ResourceInterface {
		o := &unstructured.Unstructured{Object: object}
		m, err := mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
		if err != nil {
			t.Fatal(err)
		}
		if m.Scope.Name() == meta.RESTScopeNameNamespace {
			return client.Resource(m.Resource).Namespace(o.GetNamespace())
		}
		return client.Resource(m.Resource)
	}
	answers := map[string][]string{}
	for _, q := range questions(t) {
		answers[q.Name] = ask(t, of(q.After), q)
	}
	denied := askPolicies(t, of)
	if *record {
		write(t, "testdata/recorded.yaml", answers)
		write(t, "testdata/recorded-policies.yaml", denied)
		return
	}
	if d := cmp.Diff(recorded(t), answers); d != "" {
		t.Errorf("-recorded +now\n%s", d)
	}
	var before map[string][][]string
	read(t, "testdata/recorded-policies.yaml", &before)
	if d := cmp.Diff(before, denied); d != "" {
		t.Errorf("-recorded +now\n%s", d)
	}
}

func write(t *testing.T, name string, answers any) {
	t.Helper()
	data, err := yaml.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append([]byte("# What a real API server answers: task record-apiserver\n"), data...), 0o644); err != nil {
		t.Fatal(err)
	}
}

// askPolicies creates all policies, waits until the last one is in force, and returns what is denied.
func askPolicies(t *testing.T, of func(map[string]any) dynamic.ResourceInterface) map[string][][]string {
	t.Helper()
	ctx := t.Context()
	var probe []policyCase
	read(t, "testdata/probe.yaml", &probe)
	cases := policyCases(t)
	for _, c := range append(cases, probe...) {
		for _, o := range c.Objects {
			if _, err := of(o).Create(ctx, &unstructured.Unstructured{Object: o}, metav1.CreateOptions{}); err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
		}
	}
	create := func(object map[string]any) error {
		_, err := of(object).Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	inForce := func(context.Context) (bool, error) { return create(probe[0].Ask[0]) != nil, nil }
	if err := wait.PollUntilContextTimeout(ctx, time.Second, time.Minute, true, inForce); err != nil {
		t.Fatal("no policy is in force: ", err)
	}
	answers := map[string][][]string{}
	for _, c := range cases {
		var answered []error
		for _, o := range c.Ask {
			answered = append(answered, create(o))
		}
		for _, u := range c.Update {
			answered = append(answered, change(t, of(u.Before), u))
		}
		for _, o := range c.Delete {
			u := &unstructured.Unstructured{Object: o}
			if _, err := of(o).Create(ctx, u, metav1.CreateOptions{}); err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			answered = append(answered, of(o).Delete(ctx, u.GetName(), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))
		}
		for _, err := range answered {
			denied := []string{}
			if err != nil {
				var status apierrors.APIStatus
				if !errors.As(err, &status) || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
					t.Fatalf("%s: %v", c.Name, err)
				}
				for _, cause := range status.Status().Details.Causes {
					denied = append(denied, cause.Message)
				}
			}
			slices.Sort(denied)
			answers[c.Name] = append(answers[c.Name], denied)
		}
	}
	return answers
}

// change returns the answer to an object that becomes another one. The former remains: policies of other cases keep what they match.
func change(t *testing.T, of dynamic.ResourceInterface, u policyUpdate) error {
	t.Helper()
	ctx := t.Context()
	owned := metav1.ApplyOptions{FieldManager: "lab", Force: true}
	before := &unstructured.Unstructured{Object: u.Before}
	if _, err := of.Apply(ctx, before.GetName(), before, owned); err != nil {
		t.Fatal(err)
	}
	owned.DryRun = []string{metav1.DryRunAll}
	_, err := of.Apply(ctx, before.GetName(), &unstructured.Unstructured{Object: u.After}, owned)
	return err
}

// ask returns why a server refuses an object. What is changed is created first, as a bound claim where it is one.
func ask(t *testing.T, of dynamic.ResourceInterface, q question) []string {
	t.Helper()
	ctx := t.Context()
	dry := []string{metav1.DryRunAll}
	after := &unstructured.Unstructured{Object: q.After}
	if q.Before == nil {
		_, err := of.Create(ctx, after, metav1.CreateOptions{DryRun: dry})
		return causes(t, err)
	}
	owned := metav1.ApplyOptions{FieldManager: "lab", Force: true}
	before, err := of.Apply(ctx, after.GetName(), &unstructured.Unstructured{Object: q.Before}, owned)
	if err != nil {
		t.Fatalf("%s: %v", q.Name, err)
	}
	defer func() {
		now, background := int64(0), metav1.DeletePropagationBackground
		_, err := of.Patch(ctx, before.GetName(), types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{}) // nothing runs that removes them
		if err = errors.Join(err, of.Delete(ctx, before.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &background})); err != nil {
			t.Errorf("%s: %v", q.Name, err)
		}
	}()
	if before.GetKind() == "PersistentVolumeClaim" {
		requests, _, _ := unstructured.NestedMap(before.Object, "spec", "resources", "requests")
		before.Object["status"] = map[string]any{"phase": "Bound", "capacity": requests}
		if _, err := of.UpdateStatus(ctx, before, metav1.UpdateOptions{}); err != nil {
			t.Fatalf("%s: %v", q.Name, err)
		}
	}
	owned.DryRun = dry
	_, err = of.Apply(ctx, before.GetName(), after, owned)
	return causes(t, err)
}

// causes returns why a server refuses an object.
func causes(t *testing.T, err error) []string {
	t.Helper()
	list := []string{}
	if err == nil {
		return list
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	for _, c := range status.Status().Details.Causes {
		list = append(list, withoutValue(c))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// withoutValue is bare for an error that a server has printed.
func withoutValue(c metav1.StatusCause) string {
	kind, rest, _ := strings.Cut(c.Message, ": ")
	if field.ErrorType(c.Type) != field.ErrorTypeRequired && field.ErrorType(c.Type) != field.ErrorTypeForbidden && field.ErrorType(c.Type) != field.ErrorTypeTooLong {
		d := json.NewDecoder(strings.NewReader(rest))
		var value any
		if d.Decode(&value) == nil {
			rest = strings.TrimPrefix(rest[d.InputOffset():], ": ")
		}
	}
	return bare(c.Field, kind, rest)
}
