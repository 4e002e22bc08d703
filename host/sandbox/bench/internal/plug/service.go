package plug

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The two services: what protoc would write, for messages that are bytes.

const (
	leafService = "caisson.bench.Leaf"
	hostService = "caisson.bench.Host"
)

// exchange is a method that takes bytes and answers with bytes.
type exchange func(ctx context.Context, request []byte) ([]byte, error)

// serviceOf describes a service of named methods; what is registered with it is not used.
func serviceOf(name string, methods map[string]exchange) *grpc.ServiceDesc {
	desc := &grpc.ServiceDesc{ServiceName: name, HandlerType: (*any)(nil)}
	for method, answer := range methods {
		desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: method, Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var in wrapperspb.BytesValue
			if err := decode(&in); err != nil {
				return nil, err
			}
			out, err := answer(ctx, in.GetValue())
			return wrapperspb.Bytes(out), err
		}})
	}
	return desc
}

// invoke calls a method of a service.
func invoke(ctx context.Context, conn grpc.ClientConnInterface, service, method string, request []byte) ([]byte, error) {
	var out wrapperspb.BytesValue
	if err := conn.Invoke(ctx, "/"+service+"/"+method, wrapperspb.Bytes(request), &out); err != nil {
		return nil, err
	}
	return out.GetValue(), nil
}
