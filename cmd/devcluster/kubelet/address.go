package kubelet

import (
	"hash/fnv"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
)

// The addresses lead nowhere. They are unlike loopback, which EndpointSlices refuse, and unlike each other, so that a mistake
// about which is which shows.
const (
	// nodeAddress is from TEST-NET-1 (RFC 5737).
	nodeAddress = "192.0.2.10"
	// podNetwork is the first two bytes of pod addresses, the customary 10.244.0.0/16 of flannel and kind.
	podNetwork = uint16(10<<8 | 244)
	// balancerNetwork is the first two bytes of load balancer addresses, from the benchmarking block (RFC 2544).
	balancerNetwork = uint16(198<<8 | 18)
)

// address derives an address from a UID, so that no allocation has to be kept. Two objects may share one; as nothing is
// routed there, that does no harm.
func address(network uint16, uid types.UID) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(uid)) // a hash never fails to write
	sum := hash.Sum32()

	// Bytes 1 to 254 avoid what looks like a network or a broadcast address.
	third, fourth := byte(sum>>16%254+1), byte(sum&0xffff%254+1)

	return netip.AddrFrom4([4]byte{byte(network >> 8), byte(network), third, fourth}).String()
}
