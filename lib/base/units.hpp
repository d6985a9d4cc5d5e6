// Factors from the units in which people write and read to those in which this code computes:
// bytes, seconds and their quotients. A value read in gigabytes is multiplied, one that is printed
// in them is divided.
#pragma once

namespace zeropp {

inline constexpr double kMicro = 1e-6;
inline constexpr double kMilli = 1e-3;
inline constexpr double kMega = 1e6;
inline constexpr double kGiga = 1e9;
inline constexpr double kTera = 1e12;
inline constexpr double kGigabit = kGiga / 8;  ///< bytes
inline constexpr double kMebibyte = 1024.0 * 1024.0;
inline constexpr double kGibibyte = 1024.0 * kMebibyte;

}  // namespace zeropp
