package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Cluster is the durable record of a cluster. It is saved before the first container is created, when the containers
// are known, when the cluster is complete, and before it is deleted. It needs neither the cluster's API nor its
// containers.
type Cluster struct {
	Nodes    []string  `json:"nodes"`    // container ids; empty until known
	Whole    bool      `json:"whole"`    // it was complete once
	Removing bool      `json:"removing"` // deletion was requested and has begun
	Inputs   string    `json:"inputs"`   // digest of its document
	Began    time.Time `json:"began"`
	Attached bool      `json:"attached,omitempty"` // not created by lab, and outlives it
}

const clustersDir = "clusters"

func clusterFile(name string) string { return filepath.Join(clustersDir, name+".json") }

// Cluster returns the record of a cluster, or the zero record, which proves nothing, if it is missing or unreadable.
func (d *Dir) Cluster(name string) Cluster {
	var c Cluster
	if err := d.read(clusterFile(name), &c); err != nil {
		return Cluster{}
	}
	return c
}

// Attached returns the clusters recorded as attached.
func (d *Dir) Attached() ([]string, error) {
	return d.clusters(func(c Cluster) bool { return c.Attached })
}

// Contained returns the clusters recorded as having containers.
func (d *Dir) Contained() ([]string, error) {
	return d.clusters(func(c Cluster) bool { return len(c.Nodes) > 0 })
}

func (d *Dir) clusters(which func(Cluster) bool) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(d.Path, clustersDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("state: %w", err)
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && which(d.Cluster(name)) {
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

// ForgetCluster deletes the record of a cluster, if it exists.
func (d *Dir) ForgetCluster(name string) error {
	if err := os.Remove(filepath.Join(d.Path, clusterFile(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

// Forge is the durable record of the forge's last known content, so that a loss can be reported.
type Forge struct {
	Head    string        `json:"head"`    // of the branch that engines follow
	Commits []ForgeCommit `json:"commits"` // of others, missing in the working tree
}

// ForgeCommit is a commit that only the forge had.
type ForgeCommit struct {
	Hash    string    `json:"hash"`
	Author  string    `json:"author"`
	When    time.Time `json:"when"`
	Subject string    `json:"subject"`
}

// ForgeFile is the name of the forge's record, also in snapshots.
const ForgeFile = "forge.json"

// Records reports whether an exported record of the forge has a commit of others.
func Records(record []byte, commit string) bool {
	var f Forge
	return json.Unmarshal(record, &f) == nil && slices.ContainsFunc(f.Commits, func(c ForgeCommit) bool { return c.Hash == commit })
}

const losingFile = "losing.json"

// losing records that the forge may be removed.
type losing struct {
	Forge bool `json:"forge"`
}

// Losing reports whether a removal of the forge has begun: it had no content of others, or the user agreed to lose it.
func (d *Dir) Losing() bool {
	var l losing
	return d.read(losingFile, &l) == nil && l.Forge
}

// SaveLosing records the start of a removal of the forge, or that there is none any more.
func (d *Dir) SaveLosing(begun bool) error {
	if begun {
		return d.write(losingFile, losing{Forge: true})
	}
	if err := os.Remove(filepath.Join(d.Path, losingFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

// Forge reads the record of the forge; false if it is missing or unreadable.
func (d *Dir) Forge() (Forge, bool) {
	var f Forge
	err := d.read(ForgeFile, &f)
	return f, err == nil
}

// SaveForge writes the record of the forge.
func (d *Dir) SaveForge(f Forge) error { return d.write(ForgeFile, f) }
