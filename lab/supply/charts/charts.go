// Package charts keeps charts of other people's repositories on this machine, by repository, name and version, and by content. Only a Puller makes requests.
package charts

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing/fstest"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"

	"homelab/lab"
	"homelab/lab/supply/disk"
)

// Limits of what is pulled, in bytes. Rendering has limits of its own.
const (
	maxArchive  = 32 << 20
	maxUnpacked = 64 << 20 // headers included
)

// ErrAbsent is the error of a chart that was not pulled: the cure.
var ErrAbsent = errors.New("lab charts pull")

// Cache is a folder of charts. The zero value is not usable.
type Cache struct{ Dir string }

// Record is a chart that was pulled.
type Record struct {
	Repository string    `json:"repository"`
	Name       string    `json:"name"`
	Wanted     string    `json:"wanted"`             // a version, a range, a tag or a digest, as asked for
	Version    string    `json:"version"`            // that this was when it was pulled
	Digest     string    `json:"digest"`             // of the archive
	Manifest   string    `json:"manifest,omitempty"` // digest in a registry
	Pulled     time.Time `json:"pulled"`
}

// Lookup returns the record of a chart.
func (c Cache) Lookup(use lab.ChartUse) (Record, bool) {
	var r Record
	data, err := os.ReadFile(c.record(use))
	if err != nil || json.Unmarshal(data, &r) != nil {
		return Record{}, false
	}
	return r, r.Repository == address(use) && r.Name == use.Name && r.Wanted == use.Version
}

// Files opens a chart that was pulled and is intact. It makes no requests.
func (c Cache) Files(use lab.ChartUse) (lab.ChartFiles, error) {
	r, ok := c.Lookup(use)
	if !ok {
		return lab.ChartFiles{}, ErrAbsent
	}
	data, err := os.ReadFile(c.archive(r.Digest))
	if err != nil || sum(data) != r.Digest {
		return lab.ChartFiles{}, ErrAbsent
	}
	files, err := Unpack(data)
	if err != nil {
		return lab.ChartFiles{}, fmt.Errorf("its archive is damaged: %w", err)
	}
	return lab.ChartFiles{FS: files, Version: r.Version, Manifest: r.Manifest}, nil
}

// Stored returns the files of a chart that was pulled, by their names in the cache; none if it is not there.
func (c Cache) Stored(use lab.ChartUse) map[string][]byte {
	r, ok := c.Lookup(use)
	if !ok {
		return nil
	}
	files := map[string][]byte{}
	for _, name := range []string{c.record(use), c.archive(r.Digest)} {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil
		}
		files[filepath.Base(name)] = data
	}
	return files
}

// keep writes an archive, and then its record for each version that was asked for.
func (c Cache) keep(r Record, data []byte, wanted []string) error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return disk.Explain(err, c.Dir, disk.CacheCure)
	}
	err := disk.WriteFile(c.archive(r.Digest), data)
	for _, r.Wanted = range wanted {
		text, _ := json.Marshal(r) // cannot fail: strings and a time
		if err == nil {
			err = disk.WriteFile(c.record(lab.ChartUse{Repository: r.Repository, Name: r.Name, Version: r.Wanted}), text)
		}
	}
	return disk.Explain(err, c.Dir, disk.CacheCure)
}

func (c Cache) archive(digest string) string {
	return filepath.Join(c.Dir, strings.Replace(digest, ":", "-", 1)+".tgz")
}

func (c Cache) record(use lab.ChartUse) string {
	key := sum([]byte(strings.Join([]string{address(use), use.Name, use.Version}, "\n")))
	return filepath.Join(c.Dir, strings.Replace(key, ":", "-", 1)+".json")
}

// address returns the repository of a chart. To Argo CD, one without a scheme is a registry.
func address(use lab.ChartUse) string {
	url := strings.TrimRight(use.Repository, "/")
	if !strings.Contains(url, "://") {
		url = ociPrefix + url
	}
	return url
}

const ociPrefix = "oci://"

// Unpack returns the files of a chart's archive, without its top folder.
func Unpack(archive []byte) (fs.FS, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	size, err := io.Copy(io.Discard, io.LimitReader(unzipped, maxUnpacked+1))
	if err != nil {
		return nil, err
	}
	if size > maxUnpacked {
		return nil, fmt.Errorf("more than %d MiB when unpacked", maxUnpacked>>20)
	}
	unpacked, err := loader.LoadArchiveFiles(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	files := fstest.MapFS{}
	for _, f := range unpacked {
		files[f.Name] = &fstest.MapFile{Data: f.Data, Mode: 0o444}
	}
	return files, nil
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(h[:])
}
