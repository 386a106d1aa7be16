// Package diagnose collects what helps to debug a lab and writes it to one archive.
package diagnose

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/engine"
	"homelab/lab/redact"
)

// limit bounds the whole collection.
const limit = 2 * time.Minute

// Containers is the part of docker.Docker that diagnose needs.
type Containers interface {
	Containers(ctx context.Context, filters ...string) ([]docker.Container, error)
	// Logs returns the last lines that a container wrote to both of its streams.
	Logs(ctx context.Context, container string, lines int) ([]byte, error)
	Exec(ctx context.Context, container string, stdin io.Reader, command ...string) ([]byte, error)
}

// Subject is the lab to collect from.
type Subject struct {
	Lab        string
	Clusters   []string
	Attached   []string // clusters that others own; nothing is read from them
	Reach      func(cluster string) (*rest.Config, error)
	Containers Containers
	Engine     engine.Definition
	// Documents are lab's own reports, in order.
	Documents []Document
	// Nothing of these is in the archive: Secrets, and those of Private texts (kubeconfigs) and of the Environment ("NAME=value").
	Secrets     []string
	Private     [][]byte
	Environment []string
}

// Document is a report of lab. An error of Get is written in its place.
type Document struct {
	Name string // file name; .json is encoded
	Get  func(ctx context.Context) (any, error)
}

// Archive is a collection.
type Archive struct {
	lab    string
	files  []file
	redact *redact.Redactor
}

type file struct {
	name string
	data []byte
}

// Collect collects for at most two minutes.
func Collect(ctx context.Context, s Subject) *Archive {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	a := &Archive{lab: s.Lab, redact: redact.New(s.Secrets...)}
	for _, text := range s.Private {
		a.redact.Learn("", text)
	}
	a.redact.Environment(s.Environment)
	for _, d := range s.Documents {
		v, err := d.Get(ctx)
		if path.Ext(d.Name) == ".json" {
			a.json(d.Name, v, err)
		} else if err != nil {
			a.add(d.Name, nil, err)
		}
	}
	a.containers(ctx, s)
	for _, name := range s.Clusters {
		if slices.Contains(s.Attached, name) {
			a.add(path.Join(name, "attached.txt"), []byte("not known to be lab's: lab diagnose --attached includes it\n"), nil)
			continue
		}
		a.cluster(ctx, s, name)
	}
	return a
}

func (a *Archive) add(name string, data []byte, err error) {
	if err != nil {
		data = append(data, "\nunavailable: "+err.Error()+"\n"...)
	}
	a.files = append(a.files, file{name, data})
}

func (a *Archive) json(name string, v any, err error) {
	data, encodeErr := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = encodeErr
	}
	a.add(name, data, err)
}

// containers adds the containers of the lab's network, and those of its parts that are not in it: the nodes with their journals, the forge and the other parts.
func (a *Archive) containers(ctx context.Context, s Subject) {
	list, err := s.Containers.Containers(ctx, "network="+lab.NetworkName(s.Lab))
	parts, perr := s.Containers.Containers(ctx, "label="+lab.LabelName+"="+s.Lab, "label="+lab.LabelPart)
	err = errors.Join(err, perr)
	for _, part := range parts {
		if !slices.ContainsFunc(list, func(c docker.Container) bool { return c.Name == part.Name }) {
			list = append(list, part)
		}
	}
	a.json("containers.json", list, err)
	for _, c := range list {
		out, err := s.Containers.Logs(ctx, c.Name, 2000)
		a.add("logs/"+c.Name+".log", out, err)
		if c.Running && c.Labels[lab.LabelPart] == "" { // a node
			out, err = s.Containers.Exec(ctx, c.Name, nil, "journalctl", "--no-pager", "--lines", "2000", "--unit", "kubelet", "--unit", "containerd")
			a.add("logs/"+c.Name+".journal", out, err)
		}
	}
}

// Write writes the archive without secrets. All files are read before the first is written, as any may contain a secret that another one reveals.
func (a *Archive) Write(name string) error {
	for _, f := range a.files {
		a.redact.Learn(f.name, f.data)
	}
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	tw := tar.NewWriter(zw)
	for _, f := range a.files {
		data := a.redact.File(f.name, f.data)
		h := &tar.Header{Name: path.Join("lab-"+a.lab, f.name), Mode: 0o644, Size: int64(len(data)), ModTime: time.Now()}
		if err := tw.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if _, err := tw.Write(data); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := tw.Close(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := zw.Close(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("diagnose: %w", err)
	}
	return nil
}
