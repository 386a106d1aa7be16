// Command recorder asks a repo-server of Argo CD for the manifests of Applications, as the application controller does. It is a module of its own, because lab
// does not depend on Argo CD.
//
// It reads one Question in JSON after another from stdin, and writes an Answer to each to stdout.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/reposerver/apiclient"
)

// Question is an Application with its world.
type Question struct {
	Application  v1alpha1.Application  `json:"application"`
	Repositories map[string]Repository `json:"repositories"` // by the address in the Application
	KubeVersion  string                `json:"kubeVersion"`  // of the destination
	APIVersions  []string              `json:"apiVersions"`
}

// Repository is where the repo-server finds a repository.
type Repository struct {
	URL    string `json:"url"`
	Commit string `json:"commit"`
}

// Answer has the type of each source and the manifests of all, or the error of the first that has one.
type Answer struct {
	Types     []string          `json:"types"`
	Manifests []json.RawMessage `json:"manifests"`
	Error     string            `json:"error,omitempty"`
}

const patience = 2 * time.Minute

func main() {
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "recorder:", err)
		os.Exit(1)
	}
}

func run(server string, in io.Reader, out io.Writer) error {
	// The certificate is the server's own: it is a container of this machine.
	conn, err := grpc.NewClient(server, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := apiclient.NewRepoServerServiceClient(conn)
	questions, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q Question
		if err := questions.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		a, err := ask(client, q)
		if err != nil {
			return fmt.Errorf("%s: %w", q.Application.Name, err)
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
}

// ask is GetRepoObjs of the controller with the settings of lab's Argo CD.
func ask(client apiclient.RepoServerServiceClient, q Question) (Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var a Answer
	spec := q.Application.Spec
	sources := spec.GetSources()
	refs := v1alpha1.RefTargetRevisionMapping{}
	for _, s := range sources {
		at, ok := q.Repositories[s.RepoURL]
		if !ok {
			return a, errors.New("no repository " + s.RepoURL)
		}
		if s.Ref != "" {
			refs["$"+s.Ref] = &v1alpha1.RefTarget{Repo: v1alpha1.Repository{Repo: at.URL}, TargetRevision: at.Commit, Chart: s.Chart}
		}
	}
	for _, source := range sources {
		at := q.Repositories[source.RepoURL]
		r, err := client.GenerateManifest(ctx, &apiclient.ManifestRequest{
			Repo: &v1alpha1.Repository{Repo: at.URL}, Revision: at.Commit, NoCache: true, ApplicationSource: &source, HasMultipleSources: spec.HasMultipleSources(), RefSources: refs,
			AppName: q.Application.Name, Namespace: spec.Destination.Namespace, ProjectName: spec.Project, ProjectSourceRepos: []string{"*"},
			KubeVersion: q.KubeVersion, ApiVersions: q.APIVersions,
			AppLabelKey: "app.kubernetes.io/instance", TrackingMethod: string(v1alpha1.TrackingMethodAnnotation),
			KustomizeOptions:   &v1alpha1.KustomizeOptions{BuildOptions: "--enable-helm"},
			HelmOptions:        &v1alpha1.HelmOptions{ValuesFileSchemes: []string{"https", "http"}},
			EnabledSourceTypes: map[string]bool{"Helm": true, "Kustomize": true, "Directory": true, "Plugin": true},
		}, grpc.WaitForReady(true))
		if err != nil {
			if c := status.Code(err); c == codes.Unavailable || ctx.Err() != nil { // it did not answer
				return a, err
			}
			a.Error = status.Convert(err).Message()
			return a, nil
		}
		if r.SourceType != "" {
			a.Types = append(a.Types, r.SourceType)
		}
		for _, m := range r.Manifests {
			if _, err := v1alpha1.UnmarshalToUnstructured(m); err != nil {
				a.Error = err.Error()
				return a, nil
			}
			a.Manifests = append(a.Manifests, json.RawMessage(m))
		}
	}
	return a, nil
}
