package up_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/client"
	gitserver "github.com/go-git/go-git/v5/plumbing/transport/server"
)

// TestMain serves repositories from memory, since runs on fakes would spend most of their time starting Git. lab/forge tests Git itself.
func TestMain(m *testing.M) {
	client.InstallProtocol("file", inProcess{gitserver.NewClient(repositories{})})
	os.Exit(m.Run())
}

// servers holds the forges of the stages by repository folder.
var servers sync.Map

type repositories struct{}

func (repositories) Load(ep *transport.Endpoint) (storer.Storer, error) {
	s, ok := servers.Load(ep.Path)
	if !ok { // a mirror
		return gitserver.NewFilesystemLoader(osfs.New("/")).Load(ep)
	}
	return s.(*server).Memory, nil
}

type inProcess struct{ transport.Transport }

func (t inProcess) NewUploadPackSession(ep *transport.Endpoint, auth transport.AuthMethod) (transport.UploadPackSession, error) {
	s, err := t.Transport.NewUploadPackSession(ep, auth)
	return fullHistory{s}, err
}

// fullHistory ignores the requested depth, which go-git's server does not support.
type fullHistory struct{ transport.UploadPackSession }

func (d fullHistory) UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	req.Depth = packp.DepthCommits(0)
	req.Capabilities.Delete(capability.Shallow)
	return d.UploadPackSession.UploadPack(ctx, req)
}
