package proxy

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// maxWants limits the size of a client's wants and haves, which are not kept.
const maxWants = 64 << 20

// Path suffixes of the requests of Git's protocol.
const (
	infoRefs    = "/info/refs"
	uploadPack  = "/git-upload-pack"
	receivePack = "/git-receive-pack"
)

// serveGit answers a Git client's request to an upstream host from the repository's mirror.
func (s *Server) serveGit(w http.ResponseWriter, r *http.Request) {
	host, repository, request := (&url.URL{Host: r.Host}).Hostname(), r.URL.Path, ""
	for _, suffix := range []string{infoRefs, uploadPack, receivePack} {
		if rest, ok := strings.CutSuffix(r.URL.Path, suffix); ok {
			repository, request = rest, suffix
		}
	}
	m, ok := s.mirrors[key(host, repository)]
	service := r.URL.Query().Get("service")
	switch {
	case !ok:
		http.Error(w, "lab: "+host+repository+" is not mounted", http.StatusNotFound)
	case request == receivePack || service == receivePack[1:]:
		http.Error(w, "lab: the mirror of "+m.upstream.String()+" is read-only", http.StatusForbidden)
	case request == infoRefs && service == uploadPack[1:] && r.Method == http.MethodGet, request == uploadPack && r.Method == http.MethodPost:
		r.Body = http.MaxBytesReader(w, r.Body, maxWants)
		s.forward(m, request).ServeHTTP(w, r)
	default:
		http.Error(w, "lab: the mirror of "+m.upstream.String()+" supports only git fetch", http.StatusNotFound)
	}
}

// forward returns a handler that forwards a request to a mirror.
func (s *Server) forward(m mirror, request string) http.Handler {
	return &httputil.ReverseProxy{
		Transport: s.client.Transport,
		ErrorLog:  s.errorLog,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL = &url.URL{Scheme: m.forge.Scheme, Host: m.forge.Host, Path: m.forge.Path + ".git" + request, RawQuery: r.In.URL.RawQuery}
			r.Out.Host = ""
			r.Out.Header.Del("Authorization")
			if s.secrets.User != "" {
				r.Out.SetBasicAuth(s.secrets.User, s.secrets.Password)
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			s.log.Error("forge", "url", r.URL.Redacted(), "error", err)
			http.Error(w, "lab: the mirror of "+m.upstream.String()+" in the forge does not answer", http.StatusBadGateway)
		},
	}
}
