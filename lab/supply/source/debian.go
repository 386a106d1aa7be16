package source

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"homelab/lab"
	"homelab/lab/supply/store"
)

// dpkgStatus lists the packages of a Debian root file system.
const dpkgStatus = "var/lib/dpkg/status"

// installed returns the Debian packages of the root file systems that a component takes files from: NAME=VERSION,
// sorted.
//
// A key is what a recipe asks for, and does not change when Debian updates a package: otherwise every update would
// rebuild all images. What was installed is a label of the image, and thereby in its digest, which tells images of one
// key apart wherever content counts: in engines, bundles, mirrors and the mark of a cluster.
func (b *Builder) installed(c *Component, made map[string]store.Entry) ([]string, error) {
	var list []string
	for _, need := range c.Needs() {
		if from, ok := b.recipes.Get(need); !ok || from.Kind != KindRootFS {
			continue
		}
		x, err := openIndex(made[need].Path(layerFile))
		if err != nil {
			return nil, err
		}
		status, ok, err := x.read(dpkgStatus)
		if err == nil && !ok {
			err = fmt.Errorf("%s lacks /%s", need, dpkgStatus)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, packages(status)...)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// packages reads dpkg's status file.
func packages(status []byte) []string {
	var list []string
	for entry := range bytes.SplitSeq(status, []byte("\n\n")) {
		field := map[string]string{}
		for line := range strings.Lines(string(entry)) {
			if name, value, ok := strings.Cut(line, ": "); ok {
				field[name] = strings.TrimSpace(value)
			}
		}
		if strings.HasSuffix(field["Status"], " installed") {
			list = append(list, field["Package"]+"="+field["Version"])
		}
	}
	return list
}

// Labelled returns the Debian packages in the label of a docker-archive's image.
func Labelled(archive string) ([]string, error) {
	img, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	return strings.Fields(config.Config.Labels[lab.LabelDebian]), nil
}

// Installed returns the Debian packages of a stored image, NAME=VERSION: from its label, or if it was built before
// there was one, from the root file systems that it was built from. It returns nil if these were built again since.
func (b *Builder) Installed(i Item) ([]string, error) {
	if !i.Present {
		return nil, nil
	}
	if list, err := Labelled(i.Entry.Path(archiveFile)); len(list) > 0 || err != nil {
		return list, err
	}
	made := map[string]store.Entry{}
	for _, need := range i.Component.Needs() {
		from, ok := b.recipes.Get(need)
		if !ok || from.Kind != KindRootFS {
			continue
		}
		key, err := b.recipes.key(from)
		if err != nil {
			return nil, err
		}
		e, ok, err := b.store.Lookup(need, key)
		if !ok || err != nil || e.Made.After(i.Entry.Made) {
			return nil, err
		}
		made[need] = e
	}
	return b.installed(i.Component, made)
}
