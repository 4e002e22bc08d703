package scope

import "encoding/json"

// What holds a credential says in a log only what it is. A Connection and a Scope have no
// exported fields, but reflection finds others too, and %+v and spew use it.

const redactedConnection = "scope.Connection(redacted)"

// String names the address and nothing else.
func (c *Connection) String() string {
	if c == nil || c.host == "" {
		return redactedConnection
	}
	return "scope.Connection(" + c.host + ")"
}

// GoString is String.
func (c *Connection) GoString() string { return c.String() }

// MarshalJSON encodes String.
func (c *Connection) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// String names the cluster and its state.
func (s Scope) String() string {
	name := s.id
	if s.remote != nil {
		name = s.remote.Path
	}
	return "scope.Scope(" + name + ", " + string(s.state) + ")"
}

// GoString is String.
func (s Scope) GoString() string { return s.String() }

// MarshalJSON encodes String.
func (s Scope) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// String names the cluster and its state.
func (r RemoteCluster) String() string {
	return "scope.RemoteCluster(" + r.ID.Path + ", " + string(r.State) + ")"
}

// GoString is String.
func (r RemoteCluster) GoString() string { return r.String() }

// MarshalJSON encodes String.
func (r RemoteCluster) MarshalJSON() ([]byte, error) { return json.Marshal(r.String()) }
