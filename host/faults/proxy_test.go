package faults

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/caisson-dev/caisson/host/internal/testenv"
)

// silence is how long a call goes unanswered before its connection breaks.
const silence = 2 * time.Second

// proxy stands between the operator and one control plane. Each replica of the operator
// has one of its own to its home.
type proxy struct {
	cluster string
	// lane decides what happens to a request, and replica says whose it is; nil if that
	// cannot be told.
	lane    *lane
	replica *replica
	server  *httptest.Server
	forward http.Handler
}

// newProxy listens on loopback, with a certificate of its own.
func newProxy(l *lane, name string, to *testenv.Cluster, of *replica) (*proxy, error) {
	upstream, err := url.Parse(to.Config.Host)
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	// Credentials are the client's own, and pass through.
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(to.Config))
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	quiet := log.New(io.Discard, "", 0)
	p := &proxy{cluster: name, lane: l, replica: of}
	p.forward = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		Transport: transport, FlushInterval: -1, ErrorLog: quiet,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = httptest.NewUnstartedServer(p)
	p.server.Config.ErrorLog = quiet
	p.server.StartTLS()
	return p, nil
}

// kubeconfig is one that leads through the proxy.
func (p *proxy) kubeconfig(original []byte, token string) ([]byte, error) {
	config, err := clientcmd.Load(original)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = p.server.URL
		cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	}
	if token != "" {
		for user := range config.AuthInfos {
			config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
		}
	}
	return clientcmd.Write(*config)
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.replica != nil && strings.Contains(r.URL.Path, "/leases/") && r.Method == http.MethodPut {
		p.renew(w, r)
		return
	}
	call, counts := callOf(p.cluster, r)
	if !counts {
		p.forward.ServeHTTP(w, r)
		return
	}
	switch p.lane.script.note(call) {
	case faultError:
		refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
	case faultConflict:
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict)
	case faultLost:
		p.do(r)
		refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
	case faultSilence:
		select {
		case <-time.After(silence):
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case faultCut:
		p.do(r)
		panic(http.ErrAbortHandler)
	case faultKill:
		p.lane.killLeader()
		panic(http.ErrAbortHandler)
	case faultKillAfter:
		p.do(r)
		p.lane.killLeader()
		panic(http.ErrAbortHandler)
	case faultLeader:
		p.late(w, r)
	default:
		p.forward.ServeHTTP(w, r)
	}
}

// do does what a request asks for, whatever becomes of the client.
func (p *proxy) do(r *http.Request) {
	p.forward.ServeHTTP(httptest.NewRecorder(), r)
}

// late forwards a request only when another replica leads, and then wakes the one that
// made it.
func (p *proxy) late(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	resume := p.lane.changeLeader()
	answer := httptest.NewRecorder()
	p.forward.ServeHTTP(answer, r)
	resume()
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// renew forwards what takes or renews the lease, and takes note of who has it.
func (p *proxy) renew(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	p.forward.ServeHTTP(answer, r)
	if answer.Code == http.StatusOK {
		p.lane.leads(p.replica)
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// refuse answers as an API server does that cannot.
func refuse(w http.ResponseWriter, code int32, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(code))
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: "a fault of the test", Reason: reason, Code: code,
	})
}
