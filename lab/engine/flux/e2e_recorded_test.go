//go:build e2e

package flux_test

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab/engine/kube"
	"homelab/lab/fluxset/fluxsettest"
)

// readiness returns reason and message of condition Ready, if it is not true.
func readiness(o unstructured.Unstructured) fluxsettest.Result {
	if suspended, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend"); suspended {
		return fluxsettest.Result{Reason: "Suspended"}
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, condition := range conditions {
		condition := condition.(map[string]any)
		switch generation, _ := condition["observedGeneration"].(int64); {
		case condition["type"] != "Ready":
		case condition["status"] == "True" && generation == o.GetGeneration():
			return fluxsettest.Result{}
		default:
			const most = 300
			message, _, _ := strings.Cut(fleeting.ReplaceAllString(fmt.Sprint(condition["message"]), "..."), "\n")
			return fluxsettest.Result{Reason: fmt.Sprint(condition["reason"]), Message: message[:min(len(message), most)]}
		}
	}
	return fluxsettest.Result{Reason: "Unknown"}
}

// applied returns the last successful apply of each object of a case, by Kustomization, from the API server's audit log after an offset.
func (r *recorder) applied(c fluxsettest.Case, since int64) (map[string][]map[string]any, error) {
	log, err := os.Open(r.audit)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if _, err := log.Seek(since, io.SeekStart); err != nil {
		return nil, err
	}
	last, by := map[string]map[string]any{}, map[string]string{}
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF { // what is being written is read next time
			break
		}
		if err != nil {
			return nil, err
		}
		var event struct {
			RequestURI     string         `json:"requestURI"`
			RequestObject  map[string]any `json:"requestObject"`
			ResponseStatus struct {
				Code int `json:"code"`
			} `json:"responseStatus"`
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, err
		}
		o := unstructured.Unstructured{Object: event.RequestObject}
		owner := o.GetLabels()[kustomizations.Group+"/namespace"]
		if event.ResponseStatus.Code >= 300 || strings.Contains(event.RequestURI, "dryRun=") || !c.Owns(owner) {
			continue
		}
		path, _, _ := strings.Cut(event.RequestURI, "?")
		by[path] = owner + "/" + o.GetLabels()[kustomizations.Group+"/name"]
		last[path] = plain(o, kustomizations.Group)
	}
	all := map[string][]map[string]any{}
	for path, o := range last {
		all[by[path]] = append(all[by[path]], o)
	}
	for _, list := range all {
		arrange(list)
	}
	return all, nil
}

// plain returns an object without the labels of its controller and without the metadata that says nothing.
func plain(o unstructured.Unstructured, group string) map[string]any {
	labels := o.GetLabels()
	delete(labels, group+"/name")
	delete(labels, group+"/namespace")
	if o.SetLabels(labels); len(labels) == 0 {
		unstructured.RemoveNestedField(o.Object, "metadata", "labels")
	}
	unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
	return o.Object
}

func arrange(list []map[string]any) {
	key := func(m map[string]any) string {
		o := unstructured.Unstructured{Object: m}
		return o.GetAPIVersion() + " " + o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
	}
	slices.SortFunc(list, func(a, b map[string]any) int { return cmp.Compare(key(a), key(b)) })
}

// release adds what Helm stored of the last release of a HelmRelease, and the CRDs of its chart.
func (r *recorder) release(ctx context.Context, o unstructured.Unstructured, result *fluxsettest.Result) error {
	crds, err := r.Dynamic.Resource(definitions).List(ctx, metav1.ListOptions{
		LabelSelector: fmt.Sprintf("%s/name=%s,%s/namespace=%s", releases.Group, o.GetName(), releases.Group, o.GetNamespace()),
	})
	if err != nil {
		return err
	}
	for _, crd := range crds.Items {
		result.CRDs = append(result.CRDs, crd.GetName())
	}
	history, _, _ := unstructured.NestedSlice(o.Object, "status", "history")
	if len(history) == 0 {
		return nil
	}
	storage, _, _ := unstructured.NestedString(o.Object, "status", "storageNamespace")
	of := history[0].(map[string]any)
	secret, err := r.Dynamic.Resource(secrets).Namespace(storage).Get(ctx, fmt.Sprintf("sh.helm.release.v1.%v.v%v", of["name"], of["version"]), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // being replaced
	} else if err != nil {
		return err
	}
	var stored struct {
		Name, Namespace, Manifest string
		Hooks                     []struct{ Manifest string }
	}
	if err := unpack(kube.SecretField(secret, "release"), &stored); err != nil {
		return err
	}
	result.Storage, result.Name, result.Namespace = storage, stored.Name, stored.Namespace
	if result.Objects, err = objectsOf(stored.Manifest); err != nil {
		return err
	}
	for _, hook := range stored.Hooks {
		objects, err := objectsOf(hook.Manifest)
		if err != nil {
			return err
		}
		result.Hooks = append(result.Hooks, objects...)
	}
	arrange(result.Hooks)
	return nil
}

func objectsOf(manifest string) ([]map[string]any, error) {
	if strings.TrimSpace(manifest) == "" {
		return nil, nil
	}
	decoded, err := kube.Decode([]byte(manifest))
	var objects []map[string]any
	for _, o := range decoded {
		objects = append(objects, plain(*o, releases.Group))
	}
	arrange(objects)
	return objects, err
}

// unpack decodes a release as Helm stores it.
func unpack(text string, into any) error {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return json.NewDecoder(z).Decode(into)
}
