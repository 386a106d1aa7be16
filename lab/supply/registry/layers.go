package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"

	"homelab/lab/supply/meter"
)

// packer compresses layers for a registry, each once and into a file: go-containerregistry would compress them again
// for the upload.
type packer struct {
	dir   string // for compressed layers; removed by the caller
	count *meter.Meter
	done  map[v1.Hash]packed // by digest of the uncompressed layer
}

// packed is a compressed layer on disk.
type packed struct {
	v1.Descriptor
	file string
}

func (l packed) Digest() (v1.Hash, error)            { return l.Descriptor.Digest, nil }
func (l packed) Size() (int64, error)                { return l.Descriptor.Size, nil }
func (l packed) MediaType() (types.MediaType, error) { return l.Descriptor.MediaType, nil }
func (l packed) Compressed() (io.ReadCloser, error)  { return os.Open(l.file) }

// image returns img with packed layers.
func (p *packer) image(img v1.Image) (v1.Image, error) {
	config, err := img.RawConfigFile()
	if err != nil {
		return nil, err
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	out := packedImage{config: config, layers: map[v1.Hash]packed{}}
	h, err := v1.NewHash(sum(config))
	if err != nil {
		return nil, err
	}
	manifest := v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: v1.Descriptor{MediaType: types.OCIConfigJSON, Digest: h, Size: int64(len(config))},
	}
	for _, l := range layers {
		packed, err := p.layer(l)
		if err != nil {
			return nil, err
		}
		out.layers[packed.Descriptor.Digest] = packed
		manifest.Layers = append(manifest.Layers, packed.Descriptor)
	}
	if out.manifest, err = json.Marshal(manifest); err != nil {
		return nil, err
	}
	return partial.CompressedToImage(out)
}

func (p *packer) layer(l v1.Layer) (packed, error) {
	diff, err := l.DiffID()
	if err != nil {
		return packed{}, err
	}
	if have, ok := p.done[diff]; ok {
		return have, nil
	}
	r, err := l.Uncompressed()
	if err != nil {
		return packed{}, err
	}
	defer r.Close()
	f, err := os.Create(filepath.Join(p.dir, diff.Hex))
	if err != nil {
		return packed{}, err
	}
	defer f.Close()
	digest, size := sha256.New(), new(bytesWritten)
	// The fastest level: slower ones cost several times what they save in transfer. zstd would be better, but Docker 20
	// cannot load it.
	zw, err := gzip.NewWriterLevel(io.MultiWriter(f, digest, size), gzip.BestSpeed)
	if err != nil {
		return packed{}, err
	}
	_, err = io.Copy(zw, p.count.Reader(r))
	if err := errors.Join(err, zw.Close(), f.Close()); err != nil {
		return packed{}, err
	}
	out := packed{file: f.Name(), Descriptor: v1.Descriptor{
		MediaType: types.OCILayer, Size: int64(*size), Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(digest.Sum(nil))},
	}}
	p.done[diff] = out
	return out, nil
}

type bytesWritten int64

func (n *bytesWritten) Write(p []byte) (int, error) {
	*n += bytesWritten(len(p))
	return len(p), nil
}

// packedImage implements partial.CompressedImageCore.
type packedImage struct {
	config, manifest []byte
	layers           map[v1.Hash]packed
}

func (i packedImage) RawConfigFile() ([]byte, error)      { return bytes.Clone(i.config), nil }
func (i packedImage) RawManifest() ([]byte, error)        { return bytes.Clone(i.manifest), nil }
func (i packedImage) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

func (i packedImage) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	l, ok := i.layers[h]
	if !ok {
		return nil, errors.New("no layer " + h.String())
	}
	return l, nil
}
