/*
 * A bcryptprimitives.dll for wine versions that have none (before 8.6).
 * Programs built by Go load it for one function, ProcessPrng; advapi32
 * offers the same randomness as SystemFunction036.
 */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length)
{
	while (length > 0) {
		ULONG part = length > 1 << 20 ? 1 << 20 : (ULONG)length;

		if (!SystemFunction036(data, part))
			return FALSE;
		data += part;
		length -= part;
	}
	return TRUE;
}
