package sandbox

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A frame is a header of nine bytes, little endian, and a payload:
//
//	u32 length of the payload | u8 type | u32 call id | payload
const frameHeaderBytes = 9

// frameStepBytes is how much is allocated ahead of what has arrived, whatever the
// length claims.
const frameStepBytes = 64 * kib

// frame is one message between parent and worker.
type frame struct {
	typ     frameType
	call    uint32
	payload []byte
}

// frameTooLargeError says that a frame claims more than its reader accepts.
type frameTooLargeError struct{ got, limit int64 }

func (e *frameTooLargeError) Error() string {
	return fmt.Sprintf("a frame claims %d bytes, the limit is %d", e.got, e.limit)
}

// readFrame reads one frame with at most limit bytes of payload. Memory follows what
// has been received, never what is claimed. io.EOF means that the peer closed the
// pipe between two frames; inside one it is io.ErrUnexpectedEOF.
func readFrame(r *bufio.Reader, limit int) (frame, error) {
	var header [frameHeaderBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return frame{}, err
	}
	length := int64(binary.LittleEndian.Uint32(header[0:4]))
	if length > int64(limit) {
		return frame{}, &frameTooLargeError{got: length, limit: int64(limit)}
	}
	f := frame{typ: frameType(header[4]), call: binary.LittleEndian.Uint32(header[5:9])}
	total := int(length)
	f.payload = make([]byte, 0, min(total, frameStepBytes))
	for len(f.payload) < total {
		have := len(f.payload)
		if have == cap(f.payload) {
			grown := make([]byte, have, min(total, 2*have))
			copy(grown, f.payload)
			f.payload = grown
		}
		f.payload = f.payload[:cap(f.payload)]
		if _, err := io.ReadFull(r, f.payload[have:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return frame{}, err
		}
	}
	return f, nil
}

// writeFrame writes one frame whose payload is the parts, one after the other. It
// writes once when the frame is small, so that a reader wakes up once.
func writeFrame(w io.Writer, typ frameType, call uint32, parts ...[]byte) error {
	length := 0
	for _, part := range parts {
		length += len(part)
	}
	if int64(length) > maxPayloadBytes {
		return &frameTooLargeError{got: int64(length), limit: maxPayloadBytes}
	}
	buffer := make([]byte, 0, frameHeaderBytes+min(length, frameStepBytes))
	buffer = binary.LittleEndian.AppendUint32(buffer, uint32(length))
	buffer = append(buffer, byte(typ))
	buffer = binary.LittleEndian.AppendUint32(buffer, call)
	for _, part := range parts {
		if len(part) <= cap(buffer)-len(buffer) {
			buffer = append(buffer, part...)
			continue
		}
		if _, err := w.Write(buffer); err != nil {
			return err
		}
		buffer = buffer[:0]
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	if len(buffer) == 0 {
		return nil
	}
	_, err := w.Write(buffer)
	return err
}
