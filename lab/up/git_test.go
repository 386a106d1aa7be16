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

// TestMain serves the stages' repositories from memory: a run on fakes would spend its time on starting Git otherwise. What Git itself does, lab/forge tests.
func TestMain(m *testing.M) {
	client.InstallProtocol("file", inProcess{gitserver.NewClient(repositories{})})
	os.Exit(m.Run())
}

// servers are the stages' forges by the folder that each would have.
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
	return deep{s}, err
}

// deep answers with the whole history who asks for some of it: go-git's server knows no depth.
type deep struct{ transport.UploadPackSession }

func (d deep) UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	req.Depth = packp.DepthCommits(0)
	req.Capabilities.Delete(capability.Shallow)
	return d.UploadPackSession.UploadPack(ctx, req)
}
