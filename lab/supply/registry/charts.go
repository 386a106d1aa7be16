package registry

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/repo"
	"sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/supply/disk"
)

// Helm's media types: https://helm.sh/docs/topics/registries/
const (
	chartConfigType  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContentType types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// Limits of responses. Argo's index holds every chart since 2018 and has a few MB.
const (
	maxIndex = 64 << 20
	maxChart = 32 << 20
)

// Chart pulls a chart; an empty version selects the first pin.
func (r *Registry) Chart(ctx context.Context, chart, version string, p lab.Progress) (lab.Chart, error) {
	pins, err := r.Pins(ctx)
	if err != nil {
		return lab.Chart{}, err
	}
	pin, err := r.chartPin(pins, chart, version)
	if err != nil {
		return lab.Chart{}, err
	}
	if c, ok := r.HasChart(pin); ok {
		return c, nil
	}
	from, source, out := r.chartPlace(pin)
	if p != nil {
		p("pulling chart " + pin.Name + " " + pin.Version)
	}
	var data []byte
	if strings.HasPrefix(from, "oci://") {
		data, err = r.ociChart(ctx, strings.TrimPrefix(from, "oci://"), pin)
	} else {
		data, err = r.httpChart(ctx, from, pin)
	}
	if err == nil {
		err = r.checkChart(ctx, source, pin, data)
	}
	if err == nil {
		out.Digest = sum(data)
		var v Verdict
		if v, err = r.lab.Chart(out); v.Check == CheckFirstUse && p != nil {
			p("no digest of chart " + pin.Name + " " + pin.Version + " is known: it is compared with the first one pulled")
		}
	}
	if err == nil {
		err = disk.WriteFile(out.Archive, data)
	}
	if err != nil {
		return lab.Chart{}, failed(ctx, fmt.Sprintf("chart %s %s was not pulled from %s", pin.Name, pin.Version, from), err)
	}
	return out, disk.Explain(r.keep(strings.TrimSuffix(filepath.Base(out.Archive), chartSuffix), out), r.dir, disk.CacheCure)
}

// HasChart returns a pinned chart that was pulled before and is intact. It makes no requests.
func (r *Registry) HasChart(pin ChartPin) (lab.Chart, bool) {
	_, _, out := r.chartPlace(pin)
	data, err := os.ReadFile(out.Archive)
	var kept lab.Chart
	if err != nil || !r.kept(strings.TrimSuffix(filepath.Base(out.Archive), chartSuffix), &kept) || kept.Digest != sum(data) {
		return lab.Chart{}, false
	}
	out.Digest = kept.Digest
	return out, true
}

const chartSuffix = ".tgz"

// chartPlace returns the source of a chart, its name there, and its destination.
func (r *Registry) chartPlace(pin ChartPin) (from, source string, out lab.Chart) {
	from = pin.From
	if r.mirror != "" {
		from = "oci://" + r.mirror + "/charts"
	}
	source = from + "/" + pin.Name + " " + pin.Version
	key := fileName("chart-"+pin.Name+"-"+pin.Version, source+" "+pin.Digest)
	return from, source, lab.Chart{
		Name: pin.Name, Version: pin.Version, Origin: lab.OriginRegistry, Archive: filepath.Join(r.dir, key+chartSuffix), Key: pin.Key,
	}
}

// checkChart checks a chart against its pin and its metadata.
func (r *Registry) checkChart(ctx context.Context, source string, pin ChartPin, data []byte) error {
	if got := sum(data); pin.Digest == "" {
		if err := r.remember(ctx, "chart "+source, got); err != nil {
			return err
		}
	} else if got != pin.Digest {
		return Differs("chart "+pin.Name+" "+pin.Version, pin.Digest, got)
	}
	c, err := loader.LoadArchive(bytes.NewReader(data))
	if err != nil {
		return err
	}
	if c.Metadata.Name != pin.Name || c.Metadata.Version != pin.Version {
		return fmt.Errorf("it contains %s %s", c.Metadata.Name, c.Metadata.Version)
	}
	if app := cmp.Or(pin.App, r.lab.App(pin.Name, pin.Version)); pin.Key == "" && app != "" && !installs(c.Metadata.AppVersion, app) {
		return fmt.Errorf("it installs %s where %s is pinned", c.Metadata.AppVersion, app)
	}
	return nil
}

// chartTag returns a chart's name in a registry; tags cannot contain "+".
func chartTag(from, chart, version string) (name.Tag, error) {
	return name.NewTag(from + "/" + chart + ":" + strings.ReplaceAll(version, "+", "_"))
}

func (r *Registry) ociChart(ctx context.Context, from string, pin ChartPin) ([]byte, error) {
	layer, err := chartLayer(from, pin, r.options(ctx))
	if err != nil {
		return nil, err
	}
	rc, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	return ReadAll(rc, maxChart)
}

// chartLayer returns the archive of a registry's chart.
func chartLayer(from string, pin ChartPin, options []remote.Option) (v1.Layer, error) {
	tag, err := chartTag(from, pin.Name, pin.Version)
	if err != nil {
		return nil, err
	}
	img, err := remote.Image(tag, options...)
	if err != nil {
		return nil, err
	}
	return ChartLayer(img)
}

// ChartLayer returns the layer of a registry's chart that is its archive.
func ChartLayer(img v1.Image) (v1.Layer, error) {
	manifest, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	for _, d := range manifest.Layers {
		if d.MediaType == chartContentType { // and no provenance file
			return img.LayerByDigest(d.Digest)
		}
	}
	return nil, errors.New("it is not a chart")
}

func (r *Registry) httpChart(ctx context.Context, from string, pin ChartPin) ([]byte, error) {
	base, err := url.Parse(strings.TrimSuffix(from, "/") + "/")
	if err != nil {
		return nil, err
	}
	index, err := r.index(ctx, base)
	if err != nil {
		return nil, err
	}
	// Not index.Get, which treats a version as a range.
	for _, v := range index.Entries[pin.Name] {
		if v == nil || v.Metadata == nil || v.Version != pin.Version || len(v.URLs) == 0 {
			continue
		}
		u, err := base.Parse(v.URLs[0])
		if err != nil {
			return nil, err
		}
		if u.Scheme != "https" && !loopbackURL(u.String()) {
			return nil, fmt.Errorf("index.yaml redirects to %s, which is not https", u.Redacted())
		}
		data, err := r.get(ctx, u.String(), maxChart)
		if err != nil {
			return nil, err
		}
		if want := strings.TrimPrefix(v.Digest, "sha256:"); want != "" && "sha256:"+want != sum(data) {
			return nil, fmt.Errorf("its digest is %s where index.yaml has %s", sum(data), want)
		}
		return data, nil
	}
	return nil, errors.New("it is not in index.yaml")
}

// index reads the index of a Helm repository.
func (r *Registry) index(ctx context.Context, base *url.URL) (repo.IndexFile, error) {
	var index repo.IndexFile
	data, err := r.get(ctx, base.JoinPath("index.yaml").String(), maxIndex)
	if err != nil {
		return index, err
	}
	if err := yaml.Unmarshal(data, &index); err != nil {
		return index, fmt.Errorf("index.yaml: %w", err)
	}
	return index, nil
}

func (r *Registry) get(ctx context.Context, u string, most int64) ([]byte, error) {
	return Get(ctx, r.client, u, most)
}

// Get downloads a file of limited size.
func Get(ctx context.Context, client *http.Client, u string, most int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", req.URL.Redacted(), res.Status)
	}
	return ReadAll(res.Body, most)
}

// ReadAll reads to the end. More than most bytes are an error.
func ReadAll(rd io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(rd, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("more than %d bytes were sent", most)
	}
	return data, err
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(h[:])
}

// fileName returns a readable file name that is unique per origin.
func fileName(what, origin string) string {
	return what + "-" + strings.TrimPrefix(sum([]byte(origin)), "sha256:")[:12]
}
