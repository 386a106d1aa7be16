package proxy

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// maxWants is the most that a client may send of what it has and wants.
const maxWants = 64 << 20

// The requests of Git's protocol, by the end of their paths.
const (
	infoRefs    = "/info/refs"
	uploadPack  = "/git-upload-pack"
	receivePack = "/git-receive-pack"
)

// serveGit answers what a Git client asks of an upstream host, from the mirror of the repository.
func (s *Server) serveGit(w http.ResponseWriter, r *http.Request) {
	host, repository, request := (&url.URL{Host: r.Host}).Hostname(), r.URL.Path, ""
	for _, end := range []string{infoRefs, uploadPack, receivePack} {
		if rest, ok := strings.CutSuffix(r.URL.Path, end); ok {
			repository, request = rest, end
		}
	}
	m, ok := s.mirrors[key(host, repository)]
	service := r.URL.Query().Get("service")
	switch {
	case !ok:
		http.Error(w, "lab: "+host+repository+" is not mounted", http.StatusNotFound)
	case request == receivePack || service == receivePack[1:]:
		http.Error(w, "lab: "+m.upstream.String()+" is a mirror here, which is read only", http.StatusForbidden)
	case request == infoRefs && service == uploadPack[1:] && r.Method == http.MethodGet, request == uploadPack && r.Method == http.MethodPost:
		r.Body = http.MaxBytesReader(w, r.Body, maxWants)
		s.forward(m, request).ServeHTTP(w, r)
	default:
		http.Error(w, "lab: of "+m.upstream.String()+" only what git fetch asks for is served", http.StatusNotFound)
	}
}

// forward passes a request on to a mirror.
func (s *Server) forward(m mirror, request string) http.Handler {
	return &httputil.ReverseProxy{
		Transport: s.client.Transport,
		ErrorLog:  s.errorLog,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL = &url.URL{Scheme: m.forge.Scheme, Host: m.forge.Host, Path: m.forge.Path + ".git" + request, RawQuery: r.In.URL.RawQuery}
			r.Out.Host = ""
			if s.secrets.User != "" {
				r.Out.SetBasicAuth(s.secrets.User, s.secrets.Password)
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			s.log.Error("forge", "url", r.URL.Redacted(), "error", err)
			http.Error(w, "lab: the forge, which has the mirror of "+m.upstream.String()+", does not answer", http.StatusBadGateway)
		},
	}
}
