#include "textflag.h"

// func stepAVX512(cur *[256]uint32, hi *[256]uint64, groups int, pages unsafe.Pointer, shift, mask uint64) (live uint64)
//
// For every i below 8*groups with cur[i] >= 1<<31, a child:
//
//	j := uint64(cur[i]&^(1<<31)) + hi[i]>>shift&mask
//	cur[i] = pages[j>>14][j&(1<<14-1)]
//
// live is not 0 where a child is left in cur. Eight keys at a time: the first gather reads the
// pointers to their pages, the second one their cells.
TEXT ·stepAVX512(SB), NOSPLIT, $0-56
	MOVQ         cur+0(FP), DI
	MOVQ         hi+8(FP), SI
	MOVQ         groups+16(FP), CX
	MOVQ         pages+24(FP), DX
	VMOVQ        shift+32(FP), X9
	VPBROADCASTQ mask+40(FP), Z10
	MOVQ         $0x3fff, AX       // pageMask
	VPBROADCASTQ AX, Z11
	MOVL         $0x7fffffff, AX   // all but childBit
	VPBROADCASTQ AX, Z12
	XORL         BX, BX            // live
	XORL         R8, R8            // base of the second gather, whose indexes are addresses
	TESTQ        CX, CX
	JLE          done

group:
	VMOVDQU32  (DI), Y0
	VPMOVD2M   Y0, K1              // the keys that have a child
	KMOVB      K1, AX
	TESTL      AX, AX
	JZ         next
	VMOVDQU64  (SI), Z1
	VPSRLQ     X9, Z1, Z1
	VPANDQ     Z10, Z1, Z1         // cell in the node
	VPMOVZXDQ  Y0, Z2
	VPANDQ     Z12, Z2, Z2
	VPADDQ     Z1, Z2, Z2          // cell in the level
	VPSRLQ     $14, Z2, Z3         // pageBits
	KMOVB      K1, K2              // a gather clears its mask
	VPXORQ     Z4, Z4, Z4
	VPGATHERQQ (DX)(Z3*8), K2, Z4
	VPANDQ     Z11, Z2, Z2
	VPSLLQ     $2, Z2, Z2
	VPADDQ     Z4, Z2, Z2          // address of the cell
	KMOVB      K1, K2
	VPGATHERQD (R8)(Z2*1), K2, Y0  // leaves the other keys as they are
	VMOVDQU32  Y0, (DI)
	VPMOVD2M   Y0, K1
	KMOVB      K1, AX
	ORQ        AX, BX

next:
	ADDQ $32, DI
	ADDQ $64, SI
	DECQ CX
	JNZ  group

done:
	MOVQ       BX, live+48(FP)
	VZEROUPPER
	RET
