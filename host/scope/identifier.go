package scope

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Owner identifies the object that is being reconciled. UID makes it unique over
// time: an object that is deleted and made again under its old name is another owner.
type Owner struct {
	APIVersion string
	Kind       string
	Namespace  string
	Name       string
	UID        string
	Generation int64
}

// ResourceIdentifier names something that belongs to an owner: a remote cluster, or
// an application at a place in its tree. Two with equal fields mean the same thing;
// display names and server addresses are not part of it on purpose.
type ResourceIdentifier struct {
	// Owner is the object whose tree made it. Its Generation does not count.
	Owner Owner
	// Path is the place in the tree, or the declared name of a remote.
	Path string
	// Name is for people and for the head of object names.
	Name string
}

// hashLength is how many hex digits of SHA-256 an identity keeps: 80 bits, with no
// chance of a collision in a cluster, and short enough for every name limit.
const hashLength = 20

// Hash returns a stable identity of 20 hex digits, derived from the owner's kind,
// namespace, name and UID and from the path. Name is left out, so a renamed
// catalogue entry keeps its identity.
func (r ResourceIdentifier) Hash() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		r.Owner.APIVersion, r.Owner.Kind, r.Owner.Namespace, r.Owner.Name, r.Owner.UID, r.Path,
	}, "\x00")))
	return hex.EncodeToString(sum[:])[:hashLength]
}
