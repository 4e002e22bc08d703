package plug

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/caisson-dev/caisson/abi"
	guest "github.com/caisson-dev/caisson/guest-sdk"
	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/leaf"
)

const pluginName = "leaf"

func handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "CAISSON_BENCH", MagicCookieValue: "leaf"}
}

// definition is go-plugin's view of the plug-in, on both sides.
type definition struct {
	plugin.NetRPCUnsupportedPlugin
}

var _ plugin.GRPCPlugin = (*definition)(nil)

// Serve is the life of the plug-in process.
func Serve() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: handshake(), Plugins: plugin.PluginSet{pluginName: &definition{}}, GRPCServer: plugin.DefaultGRPCServer,
		Logger: hclog.NewNullLogger(),
	})
}

// GRPCServer implements plugin.GRPCPlugin, in the plug-in.
func (d *definition) GRPCServer(broker *plugin.GRPCBroker, server *grpc.Server) error {
	s := &served{broker: broker}
	server.RegisterService(serviceOf(leafService, map[string]exchange{"Connect": s.connect, "Provision": s.provision}), nil)
	return nil
}

// served is the plug-in's side: it has the leaf, and a connection to the host.
type served struct {
	broker *plugin.GRPCBroker
	mu     sync.Mutex
	host   *grpc.ClientConn
}

// connect dials the host, once.
func (s *served) connect(_ context.Context, request []byte) ([]byte, error) {
	if len(request) != 4 {
		return nil, errors.New("the number of the broker's connection is missing")
	}
	conn, err := s.broker.Dial(binary.BigEndian.Uint32(request))
	if err != nil {
		return nil, fmt.Errorf("dial the host: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.host = conn
	return nil, nil
}

// provision runs the leaf: the code before the output is the disposition.
func (s *served) provision(ctx context.Context, envelope []byte) ([]byte, error) {
	s.mu.Lock()
	asking := &caller{ctx: ctx, conn: s.host}
	s.mu.Unlock()
	disposition, output := guest.Run(leaf.New(), abi.ExportProvision, envelope, asking)
	if asking.err != nil {
		return nil, asking.err
	}
	return append([]byte{byte(disposition)}, output...), nil
}

// caller takes the leaf's host calls to the host.
type caller struct {
	ctx  context.Context
	conn *grpc.ClientConn
	err  error
}

var _ guest.Host = (*caller)(nil)

// Call implements guest.Host.
func (c *caller) Call(f abi.Function, request []byte) []byte {
	response, err := invoke(c.ctx, c.conn, hostService, string(f), request)
	if err != nil {
		c.err = fmt.Errorf("call %s: %w", f, err)
		return []byte(`{"error":{"code":"unavailable","message":"the host does not answer"}}`)
	}
	return response
}

// Log implements guest.Host; the leaf does not log.
func (c *caller) Log(guest.Level, string) {}

// GRPCClient implements plugin.GRPCPlugin, in the host.
func (d *definition) GRPCClient(_ context.Context, broker *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return &connection{broker: broker, conn: conn}, nil
}

// connection is the host's side, as go-plugin dispenses it.
type connection struct {
	broker *plugin.GRPCBroker
	conn   *grpc.ClientConn
}

// Plugin is a running plug-in. It is safe for concurrent use, as gRPC is.
type Plugin struct {
	client *plugin.Client
	conn   *grpc.ClientConn
}

// Ask answers a host function.
type Ask func(f abi.Function, request []byte) []byte

// Start starts a plug-in process and connects both ways. The program is one that calls
// [Serve].
func Start(program string, ask Ask) (*Plugin, error) {
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: handshake(), Plugins: plugin.PluginSet{pluginName: &definition{}}, Cmd: exec.Command(program),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, Logger: hclog.NewNullLogger(),
	})
	p, err := connect(client, ask)
	if err != nil {
		client.Kill()
		return nil, fmt.Errorf("start the plug-in: %w", err)
	}
	return p, nil
}

func connect(client *plugin.Client, ask Ask) (*Plugin, error) {
	protocol, err := client.Client()
	if err != nil {
		return nil, err
	}
	dispensed, err := protocol.Dispense(pluginName)
	if err != nil {
		return nil, err
	}
	c, ok := dispensed.(*connection)
	if !ok {
		return nil, fmt.Errorf("the plug-in is a %T", dispensed)
	}
	methods := map[string]exchange{}
	for _, f := range abi.Functions() {
		methods[string(f)] = func(_ context.Context, request []byte) ([]byte, error) { return ask(f, request), nil }
	}
	id := c.broker.NextId()
	go c.broker.AcceptAndServe(id, func(options []grpc.ServerOption) *grpc.Server {
		server := grpc.NewServer(options...)
		server.RegisterService(serviceOf(hostService, methods), nil)
		return server
	})
	if _, err := invoke(context.Background(), c.conn, leafService, "Connect", binary.BigEndian.AppendUint32(nil, id)); err != nil {
		return nil, err
	}
	return &Plugin{client: client, conn: c.conn}, nil
}

// Provision runs the leaf in the plug-in.
func (p *Plugin) Provision(ctx context.Context, envelope []byte) (abi.Disposition, []byte, error) {
	answer, err := invoke(ctx, p.conn, leafService, "Provision", envelope)
	if err != nil {
		return 0, nil, fmt.Errorf("provision with go-plugin: %w", err)
	}
	if len(answer) == 0 {
		return 0, nil, errors.New("provision with go-plugin: the answer is empty")
	}
	return abi.Disposition(answer[0]), answer[1:], nil
}

// PID is the process of the plug-in.
func (p *Plugin) PID() int {
	if config := p.client.ReattachConfig(); config != nil {
		return config.Pid
	}
	return 0
}

// Close ends the process.
func (p *Plugin) Close() { p.client.Kill() }
