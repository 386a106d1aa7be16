package registry

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Parse reads pins as in pins.yaml.
func Parse(data []byte) (Pins, error) { return parsePins(data) }

// Tags returns the tags that a registry serves of a repository.
func Tags(ctx context.Context, repository string) ([]string, error) {
	repo, err := name.NewRepository(repository)
	if err != nil {
		return nil, err
	}
	return remote.List(repo, options(ctx)...)
}

// Digest returns the digest of an image's tag.
func Digest(ctx context.Context, ref string) (string, error) {
	tag, err := name.NewTag(ref)
	if err != nil {
		return "", err
	}
	d, err := remote.Head(tag, options(ctx)...)
	if err != nil {
		return "", err
	}
	return d.Digest.String(), nil
}

// ChartVersions returns the versions of a chart that a repository serves.
func ChartVersions(ctx context.Context, from, chart string) ([]string, error) {
	if host, ok := strings.CutPrefix(from, "oci://"); ok {
		tags, err := Tags(ctx, host+"/"+chart)
		for i, tag := range tags {
			tags[i] = strings.ReplaceAll(tag, "_", "+") // as in chartTag
		}
		return tags, err
	}
	digests, err := indexed(ctx, from, chart)
	return slices.Sorted(maps.Keys(digests)), err
}

// ChartDigest returns the digest of a chart's archive.
func ChartDigest(ctx context.Context, pin ChartPin) (string, error) {
	host, oci := strings.CutPrefix(pin.From, "oci://")
	if !oci {
		digests, err := indexed(ctx, pin.From, pin.Name)
		if err == nil && digests[pin.Version] == "" {
			err = errors.New("index.yaml has no digest of it")
		}
		return digests[pin.Version], err
	}
	layer, err := chartLayer(host, pin, options(ctx))
	if err != nil {
		return "", err
	}
	digest, err := layer.Digest()
	return digest.String(), err
}

// ChartApp returns the version of the application that a chart installs.
func ChartApp(ctx context.Context, pin ChartPin) (string, error) {
	r := &Registry{client: &http.Client{Transport: remote.DefaultTransport}}
	charts, err := r.charts(ctx, Pins{Charts: []ChartPin{pin}}, pin.Name)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(charts, func(c ChartPin) bool { return c.Version == pin.Version })
	if i < 0 {
		return "", errors.New("its repository does not say what it installs")
	}
	return charts[i].App, nil
}

// indexed returns the digests of a chart's versions in a Helm repository; some are empty.
func indexed(ctx context.Context, from, chart string) (map[string]string, error) {
	base, err := url.Parse(from)
	if err != nil {
		return nil, err
	}
	index, err := (&Registry{client: &http.Client{Transport: remote.DefaultTransport}}).index(ctx, base)
	if err != nil {
		return nil, err
	}
	digests := map[string]string{}
	for _, v := range index.Entries[chart] {
		if v == nil || v.Metadata == nil {
			continue
		}
		digests[v.Version] = ""
		if v.Digest != "" {
			digests[v.Version] = "sha256:" + strings.TrimPrefix(v.Digest, "sha256:")
		}
	}
	if len(digests) == 0 {
		return nil, errors.New("it is not in index.yaml")
	}
	return digests, nil
}
