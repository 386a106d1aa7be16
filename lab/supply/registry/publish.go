package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart/loader"

	"homelab/lab"
	"homelab/lab/supply/disk"
	"homelab/lab/supply/meter"
)

// pinsRepository is where a published mirror stores its pins. They differ from upstream's: manifests change with the
// archive format, and images built from source have other digests.
const pinsRepository = "lab/pins:latest"

const (
	pinsType       types.MediaType = "application/vnd.homelab.lab.pins.v1+yaml"
	pinsConfigType types.MediaType = "application/vnd.homelab.lab.pins.config.v1+json"
	maxPins                        = 1 << 20
)

// Publish adds images, under upstream's names, charts under charts/, and finally pins to a mirror.
func Publish(ctx context.Context, mirror string, images []lab.Image, charts []lab.Chart, p lab.Progress) error {
	if mirror == "" {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "no registry to publish to"}
	}
	if err := checkMirror(mirror); err != nil {
		return err
	}
	opts := options(ctx)
	held, err := readPins(mirror, opts)
	if err != nil {
		return failed(ctx, "registry "+mirror+" could not be listed", err)
	}
	if held == nil {
		held = &Pins{}
	}
	var total int64
	for _, img := range images {
		total += img.Size
	}
	dir, err := os.MkdirTemp("", "lab-publish-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	pack := &packer{dir: dir, count: meter.New("publishing to "+mirror, total, p), done: map[v1.Hash]packed{}}
	for _, img := range images {
		pin, err := publishImage(mirror, img, pack, opts)
		if err = disk.Explain(err, dir, "or move temporary files with TMPDIR"); err != nil {
			return failed(ctx, "image "+img.Ref+" was not published to "+mirror, err)
		}
		held.Images = put(held.Images, pin, func(x ImagePin) bool { return x.Name == pin.Name })
	}
	for _, c := range charts {
		pin, err := publishChart(mirror, c, opts)
		if err != nil {
			return failed(ctx, fmt.Sprintf("chart %s %s was not published to %s", c.Name, c.Version, mirror), err)
		}
		held.Charts = put(held.Charts, pin, func(x ChartPin) bool { return x.Name == pin.Name && x.Version == pin.Version })
	}
	data, err := yaml.Marshal(held)
	if err == nil {
		err = writeArtifact(mirror+"/"+pinsRepository, pinsConfigType, []byte("{}"), pinsType, data, opts)
	}
	if err != nil {
		return failed(ctx, "the pins of registry "+mirror+" were not written", err)
	}
	return nil
}

// put replaces the matching item or appends.
func put[T any](list []T, x T, same func(T) bool) []T {
	for i := range list {
		if same(list[i]) {
			list[i] = x
			return list
		}
	}
	return append(list, x)
}

func publishImage(mirror string, image lab.Image, pack *packer, opts []remote.Option) (ImagePin, error) {
	img, err := archived(image)
	if err != nil {
		return ImagePin{}, err
	}
	if img, err = pack.image(img); err != nil {
		return ImagePin{}, err
	}
	tag, err := Mirrored(mirror, image.Ref)
	if err != nil {
		return ImagePin{}, err
	}
	if err := remote.Write(tag, img, opts...); err != nil {
		return ImagePin{}, err
	}
	digest, err := img.Digest()
	if err != nil {
		return ImagePin{}, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return ImagePin{}, err
	}
	pin := ImagePin{Name: image.Name, Ref: image.Ref, Digest: digest.String(), Key: image.Key}
	if pin.Key == "" {
		pin.Manifests = image.Manifests
	}
	if at := config.Platform(); at != nil && at.Architecture != "" {
		pin.Digest, pin.Platforms = "", map[string]string{at.OS + "/" + at.Architecture: digest.String()}
	}
	return pin, nil
}

// archived opens a docker-archive's image: by name, or the only one.
func archived(image lab.Image) (v1.Image, error) {
	tag, err := name.NewTag(image.Ref)
	if err != nil {
		return nil, err
	}
	img, err := tarball.ImageFromPath(image.Archive, &tag)
	if err != nil {
		if img, err = tarball.ImageFromPath(image.Archive, nil); err != nil {
			return nil, err
		}
	}
	if got, err := img.ConfigName(); err != nil || got.String() != image.Digest {
		return nil, errors.Join(err, fmt.Errorf("%s contains %s where %s was expected", image.Archive, got, image.Digest))
	}
	return img, nil
}

func publishChart(mirror string, c lab.Chart, opts []remote.Option) (ChartPin, error) {
	data, err := os.ReadFile(c.Archive)
	if err != nil {
		return ChartPin{}, err
	}
	if got := sum(data); got != c.Digest {
		return ChartPin{}, fmt.Errorf("%s has digest %s where %s was expected", c.Archive, got, c.Digest)
	}
	loaded, err := loader.LoadFile(c.Archive)
	if err != nil {
		return ChartPin{}, err
	}
	config, err := json.Marshal(loaded.Metadata)
	if err != nil {
		return ChartPin{}, err
	}
	tag, err := chartTag(mirror+"/charts", c.Name, c.Version)
	if err != nil {
		return ChartPin{}, err
	}
	if err := writeArtifact(tag.String(), chartConfigType, config, chartContentType, data, opts); err != nil {
		return ChartPin{}, err
	}
	return ChartPin{Name: c.Name, Version: c.Version, From: "oci://" + mirror + "/charts", Digest: c.Digest, Key: c.Key}, nil
}

// writeArtifact writes a single file to a registry.
func writeArtifact(ref string, configType types.MediaType, config []byte, fileType types.MediaType, file []byte, opts []remote.Option) error {
	tag, err := name.NewTag(ref)
	if err != nil {
		return err
	}
	img, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{Layer: static.NewLayer(file, fileType), MediaType: fileType})
	if err != nil {
		return err
	}
	return remote.Write(tag, artifact{img, configType, config}, opts...)
}

// artifact is an image with an artifact's configuration, as Helm stores charts.
type artifact struct {
	v1.Image
	configType types.MediaType
	config     []byte
}

func (a artifact) RawConfigFile() ([]byte, error) { return a.config, nil }

func (a artifact) ConfigName() (v1.Hash, error) { return v1.NewHash(sum(a.config)) }

func (a artifact) Manifest() (*v1.Manifest, error) {
	m, err := a.Image.Manifest()
	if err != nil {
		return nil, err
	}
	m = m.DeepCopy()
	h, err := a.ConfigName()
	if err != nil {
		return nil, err
	}
	m.Config = v1.Descriptor{MediaType: a.configType, Digest: h, Size: int64(len(a.config))}
	return m, nil
}

func (a artifact) RawManifest() ([]byte, error) {
	m, err := a.Manifest()
	if err != nil {
		return nil, err
	}
	return json.Marshal(m)
}

func (a artifact) Digest() (v1.Hash, error) {
	raw, err := a.RawManifest()
	if err != nil {
		return v1.Hash{}, err
	}
	return v1.NewHash(sum(raw))
}

func (a artifact) Size() (int64, error) {
	raw, err := a.RawManifest()
	return int64(len(raw)), err
}

func readPins(mirror string, opts []remote.Option) (*Pins, error) {
	tag, err := name.NewTag(mirror + "/" + pinsRepository)
	if err != nil {
		return nil, err
	}
	img, err := remote.Image(tag, opts...)
	var said *transport.Error
	if errors.As(err, &said) && (said.StatusCode == http.StatusNotFound || said.StatusCode == http.StatusForbidden || said.StatusCode == http.StatusUnauthorized) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		return nil, errors.Join(err, fmt.Errorf("%s has %d parts instead of one", tag, len(layers)))
	}
	rc, err := layers[0].Compressed()
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	data, err := ReadAll(rc, maxPins)
	if err != nil {
		return nil, err
	}
	pins, err := parsePins(data)
	pins.closed = true
	if err != nil {
		return nil, err
	}
	return &pins, nil
}
