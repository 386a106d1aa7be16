package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
)

const (
	auto   = "reloader.stakater.com/auto"
	reason = "reloader.stakater.com/last-reloaded-from" // annotation of pods; a new value is a new rollout
)

// reloader restarts Deployments whose references differ from the last ones seen.
type reloader struct {
	api    string
	token  func() ([]byte, error)
	client *http.Client
	log    *slog.Logger
	seen   map[string]string // Deployment -> digest
}

type meta struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Annotations map[string]string `json:"annotations"`
}

type reference struct {
	Name       string `json:"name"`
	SecretName string `json:"secretName"` // of a volume
}

type container struct {
	Env []struct {
		ValueFrom struct {
			ConfigMap *reference `json:"configMapKeyRef"`
			Secret    *reference `json:"secretKeyRef"`
		} `json:"valueFrom"`
	} `json:"env"`
	EnvFrom []struct {
		ConfigMap *reference `json:"configMapRef"`
		Secret    *reference `json:"secretRef"`
	} `json:"envFrom"`
}

type deployment struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		Template struct {
			Metadata meta `json:"metadata"`
			Spec     struct {
				Containers     []container `json:"containers"`
				InitContainers []container `json:"initContainers"`
				Volumes        []struct {
					ConfigMap *reference `json:"configMap"`
					Secret    *reference `json:"secret"`
				} `json:"volumes"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// references returns the paths of the ConfigMaps and Secrets that a Deployment's pods use.
func (d deployment) references() []string {
	var paths []string
	add := func(configMap, secret *reference) {
		if configMap != nil {
			paths = append(paths, "configmaps/"+configMap.Name)
		}
		if secret != nil {
			paths = append(paths, "secrets/"+secret.Name+secret.SecretName)
		}
	}
	pod := d.Spec.Template.Spec
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, e := range c.Env {
			add(e.ValueFrom.ConfigMap, e.ValueFrom.Secret)
		}
		for _, e := range c.EnvFrom {
			add(e.ConfigMap, e.Secret)
		}
	}
	for _, v := range pod.Volumes {
		add(v.ConfigMap, v.Secret)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// look restarts every annotated Deployment whose references have changed.
func (r *reloader) look(ctx context.Context) error {
	var list struct {
		Items []deployment `json:"items"`
	}
	if err := r.ask(ctx, http.MethodGet, "/apis/apps/v1/deployments", nil, &list); err != nil {
		return err
	}
	var failed []error
	for _, d := range list.Items {
		if d.Metadata.Annotations[auto] != "true" && d.Spec.Template.Metadata.Annotations[auto] != "true" {
			continue
		}
		if err := r.compare(ctx, d); err != nil {
			failed = append(failed, fmt.Errorf("%s/%s: %w", d.Metadata.Namespace, d.Metadata.Name, err))
		}
	}
	return errors.Join(failed...)
}

func (r *reloader) compare(ctx context.Context, d deployment) error {
	h := sha256.New()
	for _, path := range d.references() {
		var o struct {
			Data       map[string]string `json:"data"`
			BinaryData map[string]string `json:"binaryData"`
		}
		err := r.ask(ctx, http.MethodGet, "/api/v1/namespaces/"+d.Metadata.Namespace+"/"+path, nil, &o)
		if err != nil && !errors.Is(err, errNotFound) {
			return err
		}
		fmt.Fprintf(h, "%s %q %q\n", path, o.Data, o.BinaryData)
	}
	name, is := d.Metadata.Namespace+"/"+d.Metadata.Name, hex.EncodeToString(h.Sum(nil))
	was, known := r.seen[name]
	if known && was != is {
		patch := map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]string{reason: is[:12]}}}}}
		if err := r.ask(ctx, http.MethodPatch, "/apis/apps/v1/namespaces/"+d.Metadata.Namespace+"/deployments/"+d.Metadata.Name, patch, nil); err != nil {
			return err
		}
		r.log.Info("restarted", "deployment", name)
	}
	r.seen[name] = is
	return nil
}

var errNotFound = errors.New("not found")

// ask sends a request to the API server and decodes the answer into out.
func (r *reloader) ask(ctx context.Context, method, path string, body, out any) error {
	var data bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&data).Encode(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, r.api+path, &data)
	if err != nil {
		return err
	}
	token, err := r.token()
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+string(token))
	if body != nil {
		req.Header.Set("Content-Type", "application/strategic-merge-patch+json")
	}
	res, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s %s: %w", method, path, errNotFound)
	case res.StatusCode >= http.StatusBadRequest:
		text, _ := io.ReadAll(io.LimitReader(res.Body, 300))
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text)
	case out == nil:
		return nil
	}
	return json.NewDecoder(res.Body).Decode(out)
}
