// Package appsettest reads the corpus of ApplicationSets: inputs and recorded results of the real controller.
package appsettest

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"homelab/lab/appset"
	"homelab/lab/argo"
)

// Host is the nominal host of the corpus' repositories. The estate's is Host + "estate.git"; those in repos/NAME are
// Host + "NAME.git".
const Host = "https://git.example.com/"

// Case is an ApplicationSet with its environment.
type Case struct {
	Name         string
	Dir          string
	Set          []byte // set.yaml
	Clusters     []Cluster
	Projects     []string          // besides default
	Repositories map[string]string // URL -> folder
}

// Cluster is a registration in clusters.yaml.
type Cluster struct {
	Secret      string            `json:"secret"` // name of the Secret; default cluster-NAME
	Name        string            `json:"name"`
	Server      string            `json:"server"`
	Project     string            `json:"project"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// Want is the recorded result in want.yaml, or in want.3.2.yaml where 3.2 differs from newer versions.
type Want struct {
	Refused      string           `json:"refused,omitempty"` // the API server's error for the ApplicationSet
	Reason       string           `json:"reason,omitempty"`  // of the condition ErrorOccurred
	Message      string           `json:"message,omitempty"` // of the condition, in the controller's words
	Applications []map[string]any `json:"applications,omitempty"`
}

// Undecided is the recorded reason if the controller panicked and retries forever.
const Undecided = "Undecided"

// Cases returns the cases of a corpus, by name.
func Cases(t testing.TB, corpus string) []Case {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(corpus, "cases", "*", "set.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s: %v", corpus, err)
	}
	var cases []Case
	for _, file := range files {
		dir := filepath.Dir(file)
		c := Case{Name: filepath.Base(dir), Dir: dir, Repositories: map[string]string{}}
		c.Set = readFile(t, file)
		clusters := filepath.Join(dir, "clusters.yaml")
		if _, err := os.Stat(clusters); err != nil {
			clusters = filepath.Join(corpus, "clusters.yaml")
		}
		decode(t, clusters, &c.Clusters)
		for i := range c.Clusters {
			k := &c.Clusters[i]
			if k.Secret == "" {
				k.Secret = "cluster-" + k.Name
			}
			if k.Labels == nil {
				k.Labels = map[string]string{}
			}
			k.Labels["argocd.argoproj.io/secret-type"] = "cluster"
		}
		slices.SortFunc(c.Clusters, func(a, b Cluster) int { return strings.Compare(a.Secret, b.Secret) })
		decode(t, filepath.Join(dir, "projects.yaml"), &c.Projects)
		if isDir(filepath.Join(dir, "repo")) {
			c.Repositories[Host+"estate.git"] = filepath.Join(dir, "repo")
		}
		others, _ := os.ReadDir(filepath.Join(dir, "repos"))
		for _, o := range others {
			c.Repositories[Host+o.Name()+".git"] = filepath.Join(dir, "repos", o.Name())
		}
		cases = append(cases, c)
	}
	return cases
}

// World returns the environment of the case.
func (c Case) World(minor argo.Minor) appset.World {
	w := appset.World{
		Minor:     minor,
		Namespace: "argocd",
		Project:   func(name string) bool { return name == "default" || slices.Contains(c.Projects, name) },
		Repository: func(url, revision string) (fs.FS, error) {
			dir, ok := c.Repositories[url]
			if !ok || revision != "HEAD" && revision != "main" && revision != "" {
				return nil, fmt.Errorf("no repository %s at %s", url, revision)
			}
			return os.DirFS(dir), nil
		},
	}
	for _, k := range c.Clusters {
		w.Clusters = append(w.Clusters, appset.Cluster{Name: k.Name, Server: k.Server, Project: k.Project, Labels: k.Labels, Annotations: k.Annotations})
	}
	return w
}

// Stored returns the part of an Application that an ApplicationSet determines, as stored by an API server.
func Stored(application any) (map[string]any, error) {
	data, err := json.Marshal(application)
	if err != nil {
		return nil, err
	}
	var object struct {
		Metadata map[string]any `json:"metadata"`
		Spec     map[string]any `json:"spec"`
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, err
	}
	metadata := map[string]any{}
	for _, key := range []string{"name", "namespace", "labels", "annotations", "finalizers"} {
		if v, ok := object.Metadata[key]; ok {
			metadata[key] = v
		}
	}
	return map[string]any{"metadata": metadata, "spec": object.Spec}, nil
}

// Marshal encodes a recording.
func (w Want) Marshal() ([]byte, error) { return yaml.Marshal(w) }

func decode(t testing.TB, file string, into any) {
	t.Helper()
	if !exists(file) {
		return
	}
	if err := yaml.UnmarshalStrict(readFile(t, file), into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func readFile(t testing.TB, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func isDir(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.IsDir()
}
