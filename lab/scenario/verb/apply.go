package verb

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"homelab/lab/scenario"
	"homelab/lab/strict"
)

// apply applies the objects of a file in the scenario's folder.
type apply struct {
	changes   `yaml:",inline"`
	Cluster   string `yaml:"cluster" need:"true"`
	File      string `yaml:"file" need:"true" doc:"manifests in the scenario's folder"`
	Namespace string `yaml:"namespace" doc:"for objects without one"`
}

func (a *apply) Check(c *scenario.Checker) { c.Local("file", a.File) }

// Scope returns the objects of the file.
func (a *apply) Scope(files fs.FS) ([]scenario.Subject, error) {
	data, err := scenario.Local(files, a.File)
	if err != nil {
		return nil, err
	}
	objects, err := a.objects(data)
	var list []scenario.Subject
	for _, o := range objects {
		list = append(list, a.subject(o))
	}
	return list, err
}

func (a *apply) subject(o *unstructured.Unstructured) scenario.Subject {
	return scenario.Subject{Cluster: a.Cluster, APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
}

func (a *apply) Do(ctx context.Context, c *scenario.Call) error {
	data, err := scenario.Local(c.Files, a.File)
	if err != nil {
		return err
	}
	objects, err := a.objects(data)
	if err != nil {
		return err
	}
	var names []string
	for _, o := range objects {
		if err := a.one(ctx, c, o); err != nil {
			return fmt.Errorf("%s %s: %w", strings.ToLower(o.GetKind()), o.GetName(), err)
		}
		names = append(names, strings.ToLower(o.GetKind())+" "+o.GetName())
	}
	c.Did("%s applied", strings.Join(names, ", "))
	return nil
}

func (a *apply) objects(data []byte) ([]*unstructured.Unstructured, error) {
	docs, problems := strict.Parse(a.File, data)
	if len(problems) > 0 {
		return nil, problems
	}
	var objects []*unstructured.Unstructured
	for _, doc := range docs {
		r := strict.NewReader(a.File)
		plain, ok := r.Plain(doc, "")
		m, isMap := plain.(map[string]any)
		if !ok || !isMap {
			return nil, fmt.Errorf("%s: a document is not an object", a.File)
		}
		o := &unstructured.Unstructured{Object: m}
		if o.GetKind() == "" || o.GetAPIVersion() == "" || o.GetName() == "" {
			return nil, fmt.Errorf("%s:%d: an object needs apiVersion, kind and metadata.name", a.File, doc.Line)
		}
		if o.GetNamespace() == "" && a.Namespace != "" {
			o.SetNamespace(a.Namespace)
		}
		objects = append(objects, o)
	}
	return objects, nil
}

func (a *apply) one(ctx context.Context, c *scenario.Call, o *unstructured.Unstructured) error {
	s := a.subject(o)
	if err := c.Watch(ctx, s); err != nil {
		return err
	}
	r, err := resource(c, s)
	if err != nil {
		return err
	}
	was, err := get(ctx, r, s.Name)
	if err != nil {
		return err
	}
	undo := c.Undo
	if s.Kind == "CustomResourceDefinition" || s.Kind == "Namespace" {
		undo = c.UndoLast
	}
	undo(s.String(), func(ctx context.Context) error {
		if was != nil {
			return putBack(ctx, r, was)
		}
		return deleteObject(ctx, r, s.Name)
	})
	after, err := r.Apply(ctx, s.Name, o, metav1.ApplyOptions{FieldManager: "kubectl", Force: true})
	if err != nil {
		return err
	}
	c.Changed(s, after.GetResourceVersion())
	c.Note(scenario.Lane{Cluster: a.Cluster, Name: strings.ToLower(s.Kind) + " " + s.Name}, "applied by hand")
	return nil
}

func deleteObject(ctx context.Context, r dynamic.ResourceInterface, name string) error {
	background := metav1.DeletePropagationBackground
	err := r.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
