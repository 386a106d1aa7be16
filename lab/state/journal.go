package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Cluster is lab's durable record of one cluster, written before its first container is made, when its containers are known, when it is whole, and before it
// is removed. It is evidence that needs neither the cluster's API nor its containers.
type Cluster struct {
	Nodes    []string  `json:"nodes"`    // ids of its containers; empty while none is known
	Whole    bool      `json:"whole"`    // it was complete once
	Removing bool      `json:"removing"` // somebody asked for its removal, which has begun
	Inputs   string    `json:"inputs"`   // digest of the document it is made from
	Began    time.Time `json:"began"`
	Attached bool      `json:"attached,omitempty"` // somebody else made it, and it outlives the lab
}

const clustersDir = "clusters"

func clusterFile(name string) string { return filepath.Join(clustersDir, name+".json") }

// Cluster reads the record of a cluster. One that is absent, or that cannot be read, is the zero record: it proves nothing.
func (d *Dir) Cluster(name string) Cluster {
	var c Cluster
	if err := d.read(clusterFile(name), &c); err != nil {
		return Cluster{}
	}
	return c
}

// Attached names the clusters that are recorded as attached.
func (d *Dir) Attached() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(d.Path, clustersDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("state: %w", err)
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && d.Cluster(name).Attached {
			names = append(names, name)
		}
	}
	return names, nil
}

// SaveCluster writes the record of a cluster.
func (d *Dir) SaveCluster(name string, c Cluster) error {
	if c.Began.IsZero() {
		c.Began = time.Now().UTC().Truncate(time.Second)
	}
	return d.write(clusterFile(name), c)
}

// ForgetCluster removes the record of a cluster. One that is absent is no error.
func (d *Dir) ForgetCluster(name string) error {
	if err := os.Remove(filepath.Join(d.Path, clusterFile(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

// Forge is lab's durable record of what the forge held when it was last seen, so that a loss can be named.
type Forge struct {
	Head    string        `json:"head"`    // commit of the branch that engines follow
	Commits []ForgeCommit `json:"commits"` // of others, which the working tree lacked
}

// ForgeCommit is a commit that only the forge held.
type ForgeCommit struct {
	Hash    string    `json:"hash"`
	Author  string    `json:"author"`
	When    time.Time `json:"when"`
	Subject string    `json:"subject"`
}

const forgeFile = "forge.json"

// Forge reads the record of the forge; false when there is none that can be read.
func (d *Dir) Forge() (Forge, bool) {
	var f Forge
	err := d.read(forgeFile, &f)
	return f, err == nil
}

// SaveForge writes the record of the forge.
func (d *Dir) SaveForge(f Forge) error { return d.write(forgeFile, f) }
